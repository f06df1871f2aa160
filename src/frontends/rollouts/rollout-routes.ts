import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import { forAll, get, getOrPost, large, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import type { ReleaseControl } from '../../releases/release-control.ts'
import type { RolloutAction } from '../../releases/rollout-run.ts'
import { plainType } from '../../transport/http1/http-message.ts'
import { LabelEndpoints } from './label-endpoints.ts'
import { RolloutEndpoints } from './rollout-endpoints.ts'

const actions: readonly RolloutAction[] = ['pause', 'resume', 'approve', 'advance', 'promote', 'rollback']

/** The routes of rollouts and labels. Triton does not have them. `infer` takes an inference of a version. */
export function rolloutRoutes(control: ReleaseControl | null, clock: Clock, infer: RouteHandler): Route[] {
  const releases = (): ReleaseControl => {
    if (control !== null) return control
    throw ServerError.withoutStack('UNSUPPORTED', 'this server has no rollouts')
  }
  const endpoints = new RolloutEndpoints(releases, clock)
  const labels = new LabelEndpoints(releases, infer)
  const one = '/v2/rollouts/{rollout}'
  const ofModel = '/v2/models/{model}/labels'
  const ofServer = [
    getOrPost('/v2/rollouts', 'rollouts', endpoints.list),
    get(one, 'rollouts', endpoints.show),
    ...actions.map((action) => post(`${one}/${action}`, 'rollouts', endpoints.act(action))),
    post(`${one}/notes`, 'rollouts', endpoints.note),
    get(`${one}/events`, 'rollouts', endpoints.events),
    get(`${one}/report`, 'rollouts', endpoints.report),
  ]
  return [
    ...ofServer.map(forAll),
    getOrPost(ofModel, 'rollouts', labels.labels),
    large(post(`${ofModel}/{label}/infer`, 'inference', labels.infer, plainType)),
  ]
}
