// Answers kept in memory for requests that come again. It never holds more than its bytes: the answer that was used
// longest ago goes first, and one that is larger than the whole cache is not kept.

import { waitTurn } from '../../base/run-in-slices.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { CacheTimings, type CachedAnswer, type CachedModel, type ResponseCache } from '../../model/response-cache.ts'

type KeptAnswer = CachedAnswer & { readonly byteSize: number }

/** What an entry takes beside its tensors' bytes, guessed high: the map's slot, the key, and the objects. */
const entryBytes = 512
const tensorBytes = 256
const parameterBytes = 64
/** Answers that are looked at in one turn of the event loop, when those of an unloaded model are dropped. */
const answersPerTurn = 10_000

export class LocalResponseCache implements ResponseCache {
  readonly timings = new CacheTimings()
  readonly maxBytes: number
  /** Oldest use first: a Map keeps the order of insertion. */
  readonly #answers = new Map<string, KeptAnswer>()
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

  /** New for each load of a model version: answers of an earlier load are never found. */
  prefixFor({ config, files }: CachedModel): string {
    this.#loadCount++
    return `${this.#loadCount} ${config.name} ${files.version} `
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

  insert(key: string, response: InferenceResponse): string {
    if (this.#answers.has(key)) return ''
    let byteSize = entryBytes
    for (const output of response.outputs) byteSize += tensorBytes + output.bytes.byteLength
    for (const [name, value] of response.parameters ?? []) {
      byteSize += parameterBytes + 2 * (name.length + (typeof value === 'string' ? value.length : 0))
    }
    if (byteSize > this.maxBytes)
      return `the answer takes ${byteSize} bytes, and the cache has ${this.maxBytes} (--cache-config=local,size=…)`
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
    return ''
  }

  close(): Promise<void> {
    this.#answers.clear()
    this.#byteSize = 0
    return Promise.resolve()
  }

  /**
   * Nobody finds these answers any more, so they may leave a few at a time: a cache can hold millions. Nor do they move: they are
   * among the answers that are there now, and those that are used meanwhile go to the end of the map.
   */
  dropPrefix(prefix: string): void {
    const answers = this.#answers.entries()
    const dropSome = (left: number): void => {
      for (let count = Math.min(left, answersPerTurn); count > 0; count--) {
        const { done, value } = answers.next()
        if (done === true) return
        if (value[0].startsWith(prefix)) this.#drop(value[0], value[1])
      }
      if (left > answersPerTurn) waitTurn(() => dropSome(left - answersPerTurn))
    }
    dropSome(this.#answers.size)
  }

  #drop(key: string, answer: KeptAnswer): void {
    this.#answers.delete(key)
    this.#byteSize -= answer.byteSize
  }
}
