import { ServerError } from '../../base/server-error.ts'
import { respondWithError } from '../../ports/http/error-response.ts'
import type { EventReaders } from '../../ports/http/event-readers.ts'
import { handlersOnDemand } from '../../ports/http/handlers-on-demand.ts'
import { forAll, get, lasting, ofConsole, type Route } from '../../ports/http/route.ts'
import type { FeedEndpoints, FeedSources } from './feed-endpoints.ts'

/** Feeds that are put together when the first reader asks. */
export type FeedsOnDemand = { readonly readers: EventReaders; readonly open: () => Promise<FeedSources> }

/** Triton does not have these paths. Each shows every model, so a caller needs the right for all of them, or the right `console`. */
export function feedRoutes(feeds: FeedsOnDemand | null): Route[] {
  const open = async (): Promise<FeedEndpoints> => {
    if (feeds === null) throw ServerError.withoutStack('UNSUPPORTED', 'this server has no feeds')
    const [{ FeedEndpoints: Endpoints }, sources] = await Promise.all([import('./feed-endpoints.ts'), feeds.open()])
    return new Endpoints(sources, feeds.readers)
  }
  const via = handlersOnDemand(open, (request, reason) => respondWithError(request, reason))
  const routes = [
    get(
      '/v2/live',
      'statistics',
      via(({ live }) => live),
    ),
    get(
      '/v2/live/history',
      'statistics',
      via(({ history }) => history),
    ),
    get(
      '/v2/logs',
      'logging',
      via(({ logs }) => logs),
    ),
    get(
      '/v2/traces',
      'trace',
      via(({ traces }) => traces),
    ),
    get(
      '/v2/fleet',
      'statistics',
      via(({ fleet }) => fleet),
    ),
    get(
      '/v2/repository/findings',
      'model-repository',
      via(({ findings }) => findings),
    ),
  ]
  return routes.map((route) => ofConsole(forAll(lasting(route))))
}
