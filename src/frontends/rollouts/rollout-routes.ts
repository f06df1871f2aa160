import { ServerError } from '../../base/server-error.ts'
import { handlersOnDemand } from '../../ports/http/handlers-on-demand.ts'
import { forAll, get, getOrPost, large, lasting, post, type Route } from '../../ports/http/route.ts'
import type { RolloutAction } from '../../releases/rollout-run.ts'
import { plainType } from '../../transport/http1/http-message.ts'
import type { EndpointParts, OpenEndpoints, RolloutSource } from './open-rollout-endpoints.ts'
import { fail } from '../../ports/http/json-answers.ts'

const actions: readonly RolloutAction[] = ['pause', 'resume', 'approve', 'advance', 'promote', 'rollback']

/** The routes of rollouts, labels, feedback and faults. Triton does not have them. Null: this server has no rollouts. */
export function rolloutRoutes(source: RolloutSource | null, parts: EndpointParts): Route[] {
  const via = handlersOnDemand(() => openEndpoints(source, parts), fail)
  const one = '/v2/rollouts/{rollout}'
  const ofModel = '/v2/models/{model}'
  const events = via(({ rollouts }) => rollouts.events)
  const ofServer = [
    getOrPost(
      '/v2/rollouts',
      'rollouts',
      via(({ rollouts }) => rollouts.list),
    ),
    get(
      one,
      'rollouts',
      via(({ rollouts }) => rollouts.show),
    ),
    ...actions.map((action) =>
      post(
        `${one}/${action}`,
        'rollouts',
        via(({ rollouts }) => rollouts.act(action)),
      ),
    ),
    post(
      `${one}/notes`,
      'rollouts',
      via(({ rollouts }) => rollouts.note),
    ),
    lasting(get(`${one}/events`, 'rollouts', events)),
    get(
      `${one}/report`,
      'rollouts',
      via(({ rollouts }) => rollouts.report),
    ),
    getOrPost(
      '/v2/faults',
      'rollouts',
      via(({ faults }) => faults.list),
    ),
    post(
      '/v2/faults/{fault}/cancel',
      'rollouts',
      via(({ faults }) => faults.cancel),
    ),
  ]
  return [
    ...ofServer.map(forAll),
    getOrPost(
      `${ofModel}/labels`,
      'rollouts',
      via(({ labels }) => labels.labels),
    ),
    large(
      post(
        `${ofModel}/labels/{label}/infer`,
        'inference',
        via(({ labels }) => labels.infer),
        plainType,
      ),
    ),
    post(
      `${ofModel}/feedback`,
      'rollouts',
      via(({ feedback }) => feedback),
    ),
  ]
}

async function openEndpoints(source: RolloutSource | null, parts: EndpointParts): Promise<OpenEndpoints> {
  if (source === null) throw ServerError.withoutStack('UNSUPPORTED', 'this server has no rollouts')
  const { openRolloutEndpoints } = await import('./open-rollout-endpoints.ts')
  return openRolloutEndpoints(source, parts)
}
