import type { Clock } from '../../base/clock.ts'
import { forAll, get, getOrPost, post, type Route } from '../../ports/http/route.ts'
import type { ReleaseControl, RolloutAction } from '../../releases/release-control.ts'
import { RolloutEndpoints } from './rollout-endpoints.ts'

const actions: readonly RolloutAction[] = ['pause', 'resume', 'approve', 'advance', 'promote', 'rollback']

/** The routes of rollouts. Triton does not have them. */
export function rolloutRoutes(control: ReleaseControl | null, clock: Clock): Route[] {
  const endpoints = new RolloutEndpoints(control, clock)
  const one = '/v2/rollouts/{rollout}'
  return [
    getOrPost('/v2/rollouts', 'rollouts', endpoints.list),
    get(one, 'rollouts', endpoints.show),
    ...actions.map((action) => post(`${one}/${action}`, 'rollouts', endpoints.act(action))),
    post(`${one}/notes`, 'rollouts', endpoints.note),
    get(`${one}/events`, 'rollouts', endpoints.events),
    get(`${one}/report`, 'rollouts', endpoints.report),
  ].map(forAll)
}
