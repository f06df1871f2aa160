// Who am I, what was used, what it costs, and the keys. Triton does not have these paths.

import { respondWithError } from '../../ports/http/error-response.ts'
import { handlersOnDemand } from '../../ports/http/handlers-on-demand.ts'
import { acting, forAll, forSelf, get, getOrPost, post, type Route } from '../../ports/http/route.ts'
import type { AccessParts } from './access-endpoints.ts'

/** Their code is read when the first call comes. */
export function accessRoutes(parts: AccessParts): Route[] {
  const startedNs = parts.clock.nowNs()
  const open = async () => {
    const [{ AccessEndpoints }, { KeyEndpoints }] = await Promise.all([import('./access-endpoints.ts'), import('./key-endpoints.ts')]) // prettier-ignore
    return { access: new AccessEndpoints(parts, startedNs), keys: new KeyEndpoints(parts.access ?? null) }
  }
  const via = handlersOnDemand(open, (request, reason) => respondWithError(request, reason))
  const ofKeys = '/v2/access/keys'
  const forAdministrators = [
    get('/v2/cost', 'statistics', via(({ access }) => access.cost)), // prettier-ignore
    getOrPost(ofKeys, 'metadata', via(({ keys }) => keys.listOrCreate)), // prettier-ignore
    post(`${ofKeys}/{key}/revoke`, 'metadata', via(({ keys }) => keys.revoke)), // prettier-ignore
    post(`${ofKeys}/{key}/rotate`, 'metadata', via(({ keys }) => keys.rotate)), // prettier-ignore
  ]
  return [
    forSelf(get('/v2/access/me', 'metadata', via(({ access }) => access.me))), // prettier-ignore
    forSelf(get('/v2/access/usage', 'metadata', via(({ access }) => access.usage))), // prettier-ignore
    ...forAdministrators.map((route) => acting('access', forAll(route))),
  ]
}
