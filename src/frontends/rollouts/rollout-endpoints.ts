// Rollouts over HTTP. Triton has no such paths, so their errors have statuses of their own: 409 where the state forbids a call.

import type { Caller } from '../../access/caller.ts'
import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { EventReaders } from '../../ports/http/event-readers.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { planOfPosted, readPosted } from '../../releases/read-posted-rollout.ts'
import type { ReleaseControl } from '../../releases/release-control.ts'
import { releaseDetails, releaseSummary, type ReleaseRun } from '../../releases/release-json.ts'
import type { RolloutAction } from '../../releases/rollout-run.ts'
import { headerOf, HttpResponse, type HttpRequest } from '../../transport/http1/http-message.ts'
import { answer, bodyOf, fail } from '../../ports/http/json-answers.ts'

/** Of rollouts and of experiments. */
const states = [
  'PENDING',
  'RUNNING',
  'PAUSED',
  'PROMOTING',
  'SUCCEEDED',
  'ROLLING_BACK',
  'ROLLED_BACK',
  'FAILED',
  'CANCELLED',
  'ENDED',
]
const pageSize = 100
const longestReason = 1000
const tickNs = 1e9

export class RolloutEndpoints {
  readonly #control: ReleaseControl
  readonly #clock: Clock
  readonly #readers: EventReaders

  constructor(control: ReleaseControl, clock: Clock, readers: EventReaders) {
    this.#control = control
    this.#clock = clock
    this.#readers = readers
  }

  readonly list: RouteHandler = (request, _name, _version, caller) => {
    if (request.method === 'POST') this.#create(request, caller)
    else answer(request, 200, () => this.#page(request.target))
  }

  readonly show: RouteHandler = (request, name) => answer(request, 200, () => releaseDetails(this.#control.get(name)))

  readonly act =
    (action: RolloutAction): RouteHandler =>
    (request, name, _, caller) =>
      answer(request, 200, () => {
        const { reason = '', arm = '', ...others } = bodyOf(request)
        requireNoMore(others, 'reason, arm')
        if (typeof reason !== 'string') throw new ServerError('INVALID_ARG', "'reason' must be text")
        if (typeof arm !== 'string') throw new ServerError('INVALID_ARG', "'arm' must be the name of an arm")
        return releaseDetails(this.#control.act(name, action, caller, reason.slice(0, longestReason), arm))
      })

  readonly note: RouteHandler = (request, name, _, caller) =>
    answer(request, 201, async () => {
      const { text, ...others } = bodyOf(request)
      requireNoMore(others, 'text')
      if (typeof text !== 'string') throw new ServerError('INVALID_ARG', 'a note needs a text: send {"text": "…"}')
      return releaseDetails(await this.#control.note(name, caller, text))
    })

  readonly report: RouteHandler = (request, name) => {
    const wantsText = (headerOf(request.headers, 'accept') ?? '').includes('text/markdown')
    if (!wantsText) {
      answer(request, 200, () => this.#control.get(name).report())
      return
    }
    try {
      const text = this.#control.get(name).reportText()
      request.respond(new HttpResponse(200, 'text/markdown; charset=utf-8', [Buffer.from(text)]))
    } catch (reason) {
      fail(request, reason)
    }
  }

  /** Server-sent events: `state` after every change, `tick` once a second, until the rollout is over or the client goes. */
  readonly events: RouteHandler = (request, name) => {
    try {
      this.#watch(request, this.#control.get(name))
    } catch (reason) {
      fail(request, reason)
    }
  }

  #watch(request: HttpRequest, run: ReleaseRun): void {
    let cancelTick = (): void => undefined
    const reader = this.#readers.open(request, () => {
      cancelTick()
      unwatch()
    })
    const unwatch = this.#control.watch((changed) => {
      if (changed !== run) return
      reader.send('state', releaseSummary(run))
      if (run.isOver) reader.end()
    })
    const tick = (): void => {
      cancelTick = this.#clock.after(tickNs, () => {
        // A client that does not read gets fewer events, not a full buffer.
        if (reader.isCaughtUp) reader.send('tick', releaseSummary(run))
        tick()
      })
    }
    reader.send('state', releaseSummary(run))
    if (run.isOver) reader.end()
    else tick()
  }

  #create(request: HttpRequest, caller: Caller): void {
    answer(request, 201, async () => {
      const posted = readPosted(bodyOf(request))
      const { plan, spec } = planOfPosted(posted, await this.#control.fileOf(posted.model), caller.kind !== 'anonymous')
      const { name, model, isRetry } = posted
      const author = caller.principal
      const run = await this.#control.create({ name, model, plan, spec, author, why: 'somebody posted it', isRetry })
      return releaseDetails(run)
    })
  }

  #page(target: string): unknown {
    const query = new URLSearchParams(target.split('?', 2)[1] ?? '')
    for (const key of query.keys()) {
      if (['model', 'state', 'page'].includes(key)) continue
      throw new ServerError(
        'INVALID_ARG',
        `there is no query parameter '${key.slice(0, 60)}', there are model, state, page`,
      )
    }
    const page = Number(query.get('page') ?? 1)
    if (!Number.isSafeInteger(page) || page < 1)
      throw new ServerError('INVALID_ARG', "'page' must be a whole number from 1")
    const [model, state] = [query.get('model'), query.get('state')?.toUpperCase() ?? null]
    if (state !== null && !states.includes(state))
      throw new ServerError('INVALID_ARG', `there is no state '${state.slice(0, 60)}', there are ${states.join(', ')}`)
    const fitting = this.#control.list().filter(({ record }) => (model === null || record.model === model) && (state === null || record.state.phase === state)) // prettier-ignore
    return fitting.slice((page - 1) * pageSize, page * pageSize).map(releaseSummary)
  }
}

function requireNoMore(others: object, known: string): void {
  const [key] = Object.keys(others)
  if (key === undefined) return
  throw new ServerError('INVALID_ARG', `'${key.slice(0, 60)}' is not a key that is known; known keys: ${known}`)
}
