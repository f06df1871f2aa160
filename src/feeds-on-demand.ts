import { OnDemand } from './base/on-demand.ts'
import type { FeedsOnDemand } from './frontends/feeds/feed-routes.ts'
import type { FeedParts, OpenedFeeds } from './open-feeds.ts'
import type { ServerOptions } from './options/server-options.ts'
import { EventReaders } from './ports/http/event-readers.ts'

/** Feeds whose code is read when somebody asks for one: most servers are watched by their metrics alone. */
export function feedsOnDemand(
  parts: FeedParts,
  options: ServerOptions,
): FeedsOnDemand & { readonly close: () => Promise<void> } {
  const readers = new EventReaders()
  const feeds = new OnDemand(async (): Promise<OpenedFeeds> => {
    const { openFeeds } = await import('./open-feeds.ts')
    return openFeeds(parts, options)
  })
  return {
    readers,
    open: async () => (await feeds.get()).sources,
    close: async () => {
      readers.close()
      ;(await feeds.opened())?.close()
    },
  }
}
