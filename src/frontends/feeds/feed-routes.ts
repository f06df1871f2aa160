import { forAll, get, type Route } from '../../ports/http/route.ts'
import { FeedEndpoints, type FeedSources } from './feed-endpoints.ts'

/** Triton does not have these paths. Each shows every model, so a caller needs the right for all of them. */
export function feedRoutes(sources: FeedSources | null): Route[] {
  const feeds = new FeedEndpoints(sources)
  return [
    forAll(get('/v2/live', 'statistics', feeds.live)),
    forAll(get('/v2/live/history', 'statistics', feeds.history)),
    forAll(get('/v2/logs', 'logging', feeds.logs)),
    forAll(get('/v2/traces', 'trace', feeds.traces)),
    forAll(get('/v2/repository/findings', 'model-repository', feeds.findings)),
  ]
}
