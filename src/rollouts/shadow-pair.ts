// The answers of stable and of the candidate to one request, until both are there.

import type { InferenceResponse } from '../model/inference-response.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { PairResult } from './compare-outputs.ts'

/** What one side answered. Of a model that answers many times only the number of answers counts. */
class Side {
  outputs: readonly Tensor[] = []
  count = 0
  error: string | null = null
  isDone = false
  /** The outputs are too many bytes to be kept. */
  isTooLarge = false

  add(response: InferenceResponse, isDecoupled: boolean, mostBytes: number): void {
    if (response.error !== null) this.error ??= response.error.message
    else if (!response.isFlagOnly) {
      this.count++
      if (this.count === 1 && !isDecoupled) this.#keep(response.outputs, mostBytes)
    }
    if (response.isFinal) this.isDone = true
  }

  /** The client's answer gives its memory back when it is written, so the bytes are copied. */
  #keep(outputs: readonly Tensor[], mostBytes: number): void {
    let bytes = 0
    for (const output of outputs) bytes += output.bytes.length
    this.isTooLarge = bytes > mostBytes
    if (!this.isTooLarge) this.outputs = outputs.map(copyOf)
  }
}

type PairEvents = {
  /** Stable has given its last answer. */
  readonly onStable: () => void
  /** So has the candidate, after stable. */
  readonly onBoth: () => void
}

export class ShadowPair {
  readonly requestId: string
  /** Null: they are not kept. */
  readonly inputs: readonly Tensor[] | null
  readonly stable = new Side()
  readonly candidate = new Side()
  readonly #isDecoupled: boolean
  readonly #mostBytes: number
  readonly #events: PairEvents

  constructor(
    requestId: string,
    inputs: readonly Tensor[] | null,
    isDecoupled: boolean,
    mostBytes: number,
    events: PairEvents,
  ) {
    this.requestId = requestId
    this.inputs = inputs
    this.#isDecoupled = isDecoupled
    this.#mostBytes = mostBytes
    this.#events = events
  }

  /** The caller keeps the response. */
  add(side: 'stable' | 'candidate', response: InferenceResponse): void {
    const one = this[side]
    one.add(response, this.#isDecoupled, this.#mostBytes)
    if (!one.isDone) return
    if (side === 'stable') this.#events.onStable()
    else this.#events.onBoth()
  }

  /** The result where no output must be looked at; null: the outputs must be compared. */
  plainResult(): PairResult | null {
    const { stable, candidate } = this
    if (candidate.error !== null) return differing(`the candidate failed: ${candidate.error}`)
    if (candidate.isTooLarge) return differing(`the outputs of the candidate are more than ${this.#mostBytes} bytes`)
    if (stable.count !== candidate.count) {
      return differing(`the candidate answered ${candidate.count} times, stable ${stable.count} times`)
    }
    return this.#isDecoupled ? { isEqual: true, distance: 0, outputs: [] } : null
  }
}

const differing = (why: string): PairResult => ({
  isEqual: false,
  distance: Infinity,
  outputs: [{ name: '', isEqual: false, distance: Infinity, why: why.slice(0, 300) }],
})

/** With memory of its own. */
export const copyOf = ({ name, dataType, shape, bytes }: Tensor): Tensor =>
  new Tensor(name, dataType, shape, new Uint8Array(bytes))
