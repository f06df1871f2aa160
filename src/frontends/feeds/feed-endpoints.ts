// What people who look at a running server want to see: figures as they change, the log, traces, what is wrong with models.

import type { Clock } from '../../base/clock.ts'
import { jsonInSteps } from '../../base/json-in-steps.ts'
import { fits, logLevels, type KeptLogEntry, type LogHistory, type LogQuery } from '../../base/log-history.ts'
import type { LogLevel } from '../../base/log.ts'
import { inSlices } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import { respondWithError } from '../../ports/http/error-response.ts'
import type { EventReaders } from '../../ports/http/event-readers.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { HttpResponse, jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'
import { feedQuery, flagOf, numberOf } from './feed-query.ts'

type Figures = Readonly<Record<string, number | null>>
type LiveSample = { readonly server: Figures; readonly versions: ReadonlyMap<string, Figures> }

/** What a server gives to its feeds. */
export type FeedSources = {
  readonly clock: Clock
  readonly live: {
    watch(watcher: (sample: LiveSample) => void): () => void
    history(model: string, version: string): object
    rates(): unknown
  }
  /** Null: this process keeps no log. */
  readonly logs: LogHistory | null
  readonly traces: { list(model: string, leastMs: number): unknown }
  /** What `galatea check` says of the repositories; of one model, with the text of its configuration, where one is named. */
  findings(model: string): Promise<unknown>
  /** The servers that share a store with this one. */
  fleet(): Promise<unknown>
  /** What does not change: version, how models are controlled. */
  readonly facts: () => unknown
}

const mostLines = 5000
const linesByDefault = 500
const longestTraceMs = 1e9

export class FeedEndpoints {
  readonly #feeds: FeedSources
  readonly #readers: EventReaders

  constructor(sources: FeedSources, readers: EventReaders) {
    this.#feeds = sources
    this.#readers = readers
  }

  /** Server-sent events: `facts` once, then `figures` each second, with the versions whose figures changed. */
  readonly live: RouteHandler = (request) =>
    attempt(request, () => {
      feedQuery(request.target, [])
      const { live, facts } = this.#feeds
      let sent = new Map<string, string>()
      const reader = this.#readers.open(request, () => unwatch())
      const unwatch = live.watch(({ server, versions }) => {
        // A reader that is behind gets one event with everything that is new once it has caught up.
        if (!reader.isCaughtUp) return
        const known = new Map<string, string>()
        const changed: Record<string, Figures> = {}
        for (const [key, figures] of versions) {
          const text = Object.values(figures).join()
          known.set(key, text)
          if (sent.get(key) !== text) changed[key] = figures
        }
        const gone = [...sent.keys()].filter((key) => !known.has(key))
        sent = known
        reader.send('figures', { server, versions: changed, ...(gone.length === 0 ? {} : { gone }) })
      })
      reader.send('facts', facts())
    })

  readonly history: RouteHandler = (request) =>
    attempt(request, async () => {
      const query = feedQuery(request.target, ['model', 'version'])
      const [model, version] = [query('model'), query('version')]
      const { live } = this.#feeds
      const found = live.history(model, version)
      await this.#respond(request, model === '' ? { ...found, versions: live.rates() } : found)
    })

  readonly logs: RouteHandler = (request) =>
    attempt(request, async () => {
      const query = feedQuery(request.target, ['model', 'level', 'q', 'limit', 'follow'])
      const { logs } = this.#feeds
      if (logs === null) throw ServerError.withoutStack('UNSUPPORTED', 'this process keeps no log lines')
      const wanted: LogQuery = { model: query('model'), level: levelOf(query('level')), text: query('q') }
      const lines = logs.find(wanted, numberOf('limit', query('limit'), linesByDefault, mostLines))
      if (!flagOf('follow', query('follow'))) {
        await this.#respond(request, { lines: lines.values().map(shownLine) })
        return
      }
      let skipped = 0
      const reader = this.#readers.open(request, () => unwatch())
      const send = (entry: KeptLogEntry): void => {
        const isSent = reader.send('line', skipped === 0 ? shownLine(entry) : { ...shownLine(entry), skipped })
        skipped = isSent ? 0 : skipped + 1
      }
      const unwatch = logs.watch((entry) => {
        if (fits(entry, wanted)) send(entry)
      })
      for (const entry of lines) send(entry)
    })

  readonly traces: RouteHandler = (request) =>
    attempt(request, async () => {
      const query = feedQuery(request.target, ['model', 'min_ms'])
      const least = numberOf('min_ms', query('min_ms'), 0, longestTraceMs)
      await this.#respond(request, { traces: this.#feeds.traces.list(query('model'), least) })
    })

  readonly fleet: RouteHandler = (request) =>
    attempt(request, async () => {
      feedQuery(request.target, [])
      await this.#respond(request, await this.#feeds.fleet())
    })

  readonly findings: RouteHandler = (request) =>
    attempt(request, async () => {
      const query = feedQuery(request.target, ['model'])
      await this.#respond(request, await this.#feeds.findings(query('model')))
    })

  /** What servers, logs and traces say may have megabytes: others are served while it is written. */
  async #respond(request: HttpRequest, value: unknown): Promise<void> {
    const pieces = await inSlices(this.#feeds.clock, jsonInSteps(value))
    request.respond(new HttpResponse(200, jsonType, pieces))
  }
}

function levelOf(text: string): LogLevel {
  if (text === '') return 'verbose'
  const level = logLevels.find((known) => known === text)
  if (level !== undefined) return level
  throw new ServerError('INVALID_ARG', `'level' must be one of ${logLevels.join(', ')}, got '${text.slice(0, 60)}'`)
}

const shownLine = ({ number, wallMs, level, message, fields, source }: KeptLogEntry): object => ({
  number,
  at: new Date(wallMs).toISOString(),
  level,
  source,
  message,
  fields: Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== undefined && value !== null)
      .map(([name, value]) => [name, typeof value === 'bigint' ? value.toString() : value]),
  ),
})

function attempt(request: HttpRequest, act: () => void | Promise<void>): void {
  Promise.try(act).catch((reason: unknown) => respondWithError(request, reason))
}
