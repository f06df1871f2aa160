// Answers kept in memory for requests that come again. It never holds more than its bytes: the answer that was used
// longest ago goes first, and one that is larger than the whole cache is not kept.

import { createHash } from 'node:crypto'
import type { InferenceRequest, Parameters } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import { Tensor } from '../tensor/tensor.ts'

export type CachedAnswer = {
  readonly outputs: readonly Tensor[]
  readonly parameters: Parameters | null
  readonly byteSize: number
}

/** What an entry takes beside its tensors' bytes, guessed high: the map's slot, the key, and the objects. */
const entryBytes = 512
const tensorBytes = 256

export class ResponseCache {
  readonly maxBytes: number
  /** Oldest use first: a Map keeps the order of insertion. */
  readonly #answers = new Map<string, CachedAnswer>()
  #byteSize = 0
  #lookupCount = 0
  #hitCount = 0
  #evictionCount = 0
  #loadCount = 0

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get byteSize(): number {
    return this.#byteSize
  }

  get entryCount(): number {
    return this.#answers.size
  }

  get lookupCount(): number {
    return this.#lookupCount
  }

  get hitCount(): number {
    return this.#hitCount
  }

  get evictionCount(): number {
    return this.#evictionCount
  }

  /** Of the keys of one load of a model version: what was kept of an earlier load is never found again. */
  prefixFor(modelName: string, version: string): string {
    this.#loadCount++
    return `${this.#loadCount} ${modelName} ${version} `
  }

  lookup(key: string): CachedAnswer | null {
    this.#lookupCount++
    const answer = this.#answers.get(key)
    if (answer === undefined) return null
    this.#hitCount++
    this.#answers.delete(key)
    this.#answers.set(key, answer)
    return answer
  }

  /** Copies the outputs: what they are views on is given back when the client has its answer. */
  insert(key: string, response: InferenceResponse): void {
    let byteSize = entryBytes
    for (const output of response.outputs) byteSize += tensorBytes + output.bytes.byteLength
    if (byteSize > this.maxBytes) return
    const replaced = this.#answers.get(key)
    if (replaced !== undefined) this.#drop(key, replaced)
    for (const [oldest, answer] of this.#answers) {
      if (this.#byteSize + byteSize <= this.maxBytes) break
      this.#drop(oldest, answer)
      this.#evictionCount++
    }
    const outputs = response.outputs.map(({ name, dataType, shape, bytes }) => {
      // Not from Node's pool: a small view would keep a whole slab alive, uncounted.
      const copy = Buffer.allocUnsafeSlow(bytes.byteLength)
      copy.set(bytes)
      return new Tensor(name, dataType, [...shape], copy)
    })
    this.#answers.set(key, { outputs, parameters: response.parameters, byteSize })
    this.#byteSize += byteSize
  }

  /** For a model that is gone. */
  dropPrefix(prefix: string): void {
    for (const [key, answer] of this.#answers) if (key.startsWith(prefix)) this.#drop(key, answer)
  }

  #drop(key: string, answer: CachedAnswer): void {
    this.#answers.delete(key)
    this.#byteSize -= answer.byteSize
  }
}

/**
 * Two requests have one key when the model would be asked the same: inputs with name, type, shape and bytes in any
 * order, and the outputs that are wanted, in their order. A hash that cannot be aimed at, for clients choose the bytes:
 * nobody may get another's answer.
 */
export function cacheKey(prefix: string, request: InferenceRequest): string {
  const hash = createHash('sha256')
  const inputs = request.inputs.length < 2 ? request.inputs : request.inputs.toSorted(byName)
  const names = request.requestedOutputs
  const head = JSON.stringify([
    names,
    inputs.map(({ name, dataType, shape, bytes }) => [name, dataType, shape, bytes.byteLength]),
  ])
  // The head says how long everything is, so the bytes that follow cannot be read in two ways.
  hash.update(`${Buffer.byteLength(head)}:${head}`)
  for (const input of inputs) hash.update(input.bytes)
  return prefix + hash.digest('latin1')
}

const byName = (a: Tensor, b: Tensor): number => (a.name < b.name ? -1 : 1)
