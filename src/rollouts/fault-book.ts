// The faults that are in force: whom they hit, how often, and until when.

import { ServerError, errorCodes, type ErrorCode } from '../base/server-error.ts'
import type { Clock } from '../base/clock.ts'
import { PlanProblems, type PlanValue } from '../base/plan-reader.ts'
import type { FaultSource, InjectedFault } from '../model/fault.ts'
import type { RequestOrigin } from '../model/request-origin.ts'
import { fullWeight, type RandomDraws } from './assignment.ts'
import { AskedFacts } from './asked-facts.ts'
import { envoyFault } from './envoy-fault.ts'
import { readConditions } from './read-rules.ts'
import { matchRule, type TrafficRule } from './traffic-rule.ts'

const longestNs = 3600e9
const longestDelayMs = 300_000
const mostFaults = 100

/** As clients see it. */
type FaultJson = {
  readonly id: string
  readonly model: string | null
  readonly arm: string
  /** Per cent. */
  readonly share: number
  readonly delay_ms: number
  readonly abort: { readonly code: ErrorCode; readonly message: string } | null
  readonly judge: boolean
  readonly by: string
  /** Seconds until it ends. */
  readonly left_s: number
  /** Requests that it hit. */
  readonly hits: number
}

type Fault = {
  readonly id: string
  readonly model: string | null
  readonly arm: string
  readonly when: readonly TrafficRule[]
  readonly share: number
  readonly fault: InjectedFault
  readonly by: string
  readonly untilNs: number
  hits: number
}

const arms = ['stable', 'candidate', 'any'] as const
const example = 'as in {"model": "digits", "share": 5, "delay_ms": 200, "for": "10m"}'

export class FaultBook implements FaultSource {
  readonly #clock: Clock
  readonly #draws: RandomDraws
  readonly #countryOf: (origin: RequestOrigin) => string
  #faults: readonly Fault[] = []
  #lastId = 0

  constructor(clock: Clock, draws: RandomDraws, countryOf: (origin: RequestOrigin) => string) {
    this.#clock = clock
    this.#draws = draws
    this.#countryOf = countryOf
  }

  draw(origin: RequestOrigin, model: string, arm: string): InjectedFault | null {
    for (const fault of this.#faults) {
      if (fault.untilNs <= this.#clock.nowNs() || !this.#hits(fault, origin, model, arm)) continue
      fault.hits++
      return fault.fault
    }
    return envoyFault(origin, this.#draws)
  }

  #hits(fault: Fault, origin: RequestOrigin, model: string, arm: string): boolean {
    if (fault.model !== null && fault.model !== model) return false
    if (fault.arm !== 'any' && fault.arm !== arm) return false
    if (fault.when.length > 0 && matchRule(fault.when, new AskedFacts(this.#countryOf).of(origin, false)) === null)
      return false
    return this.#draws.bucket() < fault.share
  }

  list(): readonly FaultJson[] {
    const nowNs = this.#clock.nowNs()
    this.#faults = this.#faults.filter(({ untilNs }) => untilNs > nowNs)
    return this.#faults.map(({ id, model, arm, share, fault, by, untilNs, hits }) => ({
      id,
      model,
      arm,
      share: (share * 100) / fullWeight,
      delay_ms: fault.delayNs / 1e6,
      abort: fault.abort && { code: fault.abort.code, message: fault.abort.message },
      judge: fault.isJudged,
      by,
      left_s: Math.ceil((untilNs - nowNs) / 1e9),
      hits,
    }))
  }

  /** `body` is the JSON of the call. Throws ServerError with what is wrong with it. */
  add(body: unknown, by: string): FaultJson {
    const problems = new PlanProblems(() => null)
    const read = readFault(problems.root(body))
    const [problem] = problems.list()
    if (problem !== undefined || read === null) {
      const { message, fix } = problem ?? { message: 'the fault cannot be read', fix: example }
      const what = message.replace(/^the file /, 'the body ')
      throw new ServerError('INVALID_ARG', fix === '' ? what : `${what}: ${fix}`)
    }
    if (this.list().length >= mostFaults) {
      throw new ServerError('UNAVAILABLE', `${mostFaults} faults are in force, which is the most: cancel one of them`)
    }
    const { forNs, ...fault } = read
    const id = `fault-${++this.#lastId}`
    this.#faults = [...this.#faults, { ...fault, id, by, untilNs: this.#clock.nowNs() + forNs, hits: 0 }]
    return this.list().at(-1) as FaultJson
  }

  /** What it was. Throws ServerError when there is none of that id. */
  cancel(id: string): FaultJson {
    const found = this.list().find((fault) => fault.id === id)
    if (found === undefined) {
      throw new ServerError('NOT_FOUND', `no fault '${id.slice(0, 60)}' is in force: GET /v2/faults lists them`)
    }
    this.#faults = this.#faults.filter((fault) => fault.id !== id)
    return found
  }
}

type ReadFault = Omit<Fault, 'id' | 'by' | 'untilNs' | 'hits'> & { readonly forNs: number }

function readFault(at: PlanValue): ReadFault | null {
  const keys = ['model', 'arm', 'when', 'share', 'delay_ms', 'abort', 'for', 'judge'] as const
  const fields = at.fields(keys, example)
  if (fields === null) return null
  if (!fields.for.isThere) return at.fail("needs 'for', how long the fault lasts", 'as in "for": "10m"')
  const forNs = fields.for.durationNs()
  if (forNs !== null && forNs > longestNs) return fields.for.mustBe('a time of at most 1h')
  const delayMs = fields.delay_ms.isThere ? fields.delay_ms.number(0, longestDelayMs) : 0
  const abort = fields.abort.isThere ? readAbort(fields.abort) : null
  if (!fields.delay_ms.isThere && !fields.abort.isThere) return at.fail("needs 'delay_ms' or 'abort'", example)
  const share = fields.share.isThere ? fields.share.weight() : fullWeight
  const arm = fields.arm.isThere ? fields.arm.word(arms) : 'any'
  const model = fields.model.isThere ? fields.model.text() : null
  const when = fields.when.isThere ? [{ when: readConditions(fields.when), to: null, weight: null }] : []
  const isJudged = fields.judge.isThere ? fields.judge.flag() : false
  if (forNs === null || delayMs === null || share === null || arm === null || isJudged === null) return null
  return { model, arm, when, share, fault: { delayNs: delayMs * 1e6, abort, isJudged }, forNs }
}

function readAbort(at: PlanValue): ServerError | null {
  const fields = at.fields(['code', 'message'], 'as in {"code": "UNAVAILABLE"}')
  if (fields === null) return null
  const code = fields.code.word(errorCodes)
  const message = fields.message.isThere ? fields.message.text() : 'a fault that was asked for'
  return code === null || message === null ? null : ServerError.withoutStack(code, message.slice(0, 300))
}
