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

  add(response: InferenceResponse, isDecoupled: boolean): void {
    if (response.error !== null) this.error ??= response.error.message
    else if (!response.isFlagOnly) {
      this.count++
      // The client's answer gives its memory back when it is written, so the bytes are copied.
      if (this.count === 1 && !isDecoupled) this.outputs = response.outputs.map(copyOf)
    }
    if (response.isFinal) this.isDone = true
  }
}

export class ShadowPair {
  readonly requestId: string
  /** Null: they are not kept. */
  readonly inputs: readonly Tensor[] | null
  readonly stable = new Side()
  readonly candidate = new Side()
  readonly #isDecoupled: boolean
  readonly #onBoth: (pair: ShadowPair) => void

  constructor(
    requestId: string,
    inputs: readonly Tensor[] | null,
    isDecoupled: boolean,
    onBoth: (pair: ShadowPair) => void,
  ) {
    this.requestId = requestId
    this.inputs = inputs
    this.#isDecoupled = isDecoupled
    this.#onBoth = onBoth
  }

  /** The caller keeps the response. */
  add(side: 'stable' | 'candidate', response: InferenceResponse): void {
    this[side].add(response, this.#isDecoupled)
    if (response.isFinal && this.stable.isDone && this.candidate.isDone) this.#onBoth(this)
  }

  /** The result where no output must be looked at; null: the outputs must be compared. */
  plainResult(): PairResult | null {
    const { stable, candidate } = this
    if (candidate.error !== null) return differing(`the candidate failed: ${candidate.error}`)
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
