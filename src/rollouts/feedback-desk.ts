// Takes labels and scores of answers, for all models. The rollout that routed the request knows what to do with them.

import { readFeedback, type FeedbackEntry } from './feedback.ts'

/** `forwarded`: this server did not answer the request, so the feedback goes to the servers that share its rollouts. */
const feedbackResults = ['accepted', 'forwarded', 'unknown', 'repeated', 'no_prediction', 'not_judged'] as const
export type FeedbackResult = (typeof feedbackResults)[number]

/** A rollout that remembers its answers. */
export interface FeedbackTaker {
  takeFeedback(entry: FeedbackEntry): FeedbackResult
}

/** Sends feedback to the servers that share rollouts. False: they cannot be reached. */
type ForwardFeedback = (model: string, entries: readonly FeedbackEntry[]) => boolean

type FeedbackReceipt = Readonly<Record<FeedbackResult, number>> & {
  /** The first ids that no rollout remembers. */
  readonly unknown_ids: readonly string[]
}

/** The rollout that lives, and those before it: feedback comes for a day after a rollout has ended. */
const mostTakers = 3
const mostToldIds = 20
/** Models of which calls are counted apart. */
const mostModels = 10_000

export class FeedbackDesk {
  readonly #takers = new Map<string, FeedbackTaker[]>()
  readonly #counts = new Map<string, Record<FeedbackResult, number>>()
  /** Null: there are no other servers. */
  forward: ForwardFeedback | null = null

  /** From now on this rollout is asked first. */
  open(model: string, taker: FeedbackTaker): void {
    this.#takers.set(model, [taker, ...(this.#takers.get(model) ?? [])].slice(0, mostTakers))
  }

  /** Counts of all calls so far. */
  counts(): ReadonlyMap<string, Readonly<Record<FeedbackResult, number>>> {
    return this.#counts
  }

  /** `body` is the JSON of the call. A text says what is wrong with it. */
  take(model: string, body: unknown): FeedbackReceipt | string {
    const { entries, problem } = readFeedback(body)
    if (problem !== '') return problem
    const takers = this.#takers.get(model) ?? []
    const receipt = noResults()
    const unknown: FeedbackEntry[] = []
    for (const entry of entries) {
      const result = takeEntry(takers, entry)
      receipt[result]++
      if (result === 'unknown') unknown.push(entry)
    }
    const isForwarded = unknown.length > 0 && this.forward !== null && this.forward(model, unknown)
    if (isForwarded) [receipt.forwarded, receipt.unknown] = [receipt.unknown, 0]
    this.#count(model, receipt)
    return { ...receipt, unknown_ids: isForwarded ? [] : unknown.slice(0, mostToldIds).map(({ id }) => id) }
  }

  /** Another server got these and does not know their ids. Each server gets them: what is not known here is not counted. */
  takeForwarded(model: string, entries: readonly FeedbackEntry[]): void {
    const takers = this.#takers.get(model) ?? []
    const receipt = noResults()
    for (const entry of entries) receipt[takeEntry(takers, entry)]++
    receipt.unknown = 0
    this.#count(model, receipt)
  }

  #count(model: string, receipt: Readonly<Record<FeedbackResult, number>>): void {
    const known = this.#counts.get(model)
    if (known === undefined && this.#counts.size >= mostModels) return
    const counts = known ?? noResults()
    for (const result of feedbackResults) counts[result] += receipt[result]
    this.#counts.set(model, counts)
  }
}

function takeEntry(takers: readonly FeedbackTaker[], entry: FeedbackEntry): FeedbackResult {
  for (const taker of takers) {
    const result = taker.takeFeedback(entry)
    if (result !== 'unknown') return result
  }
  return 'unknown'
}

const noResults = (): Record<FeedbackResult, number> => ({
  accepted: 0,
  forwarded: 0,
  unknown: 0,
  repeated: 0,
  no_prediction: 0,
  not_judged: 0,
})
