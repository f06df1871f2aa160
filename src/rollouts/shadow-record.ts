// What shadow copies showed: how many were compared, how far the answers were apart, and the worst pairs for a look.

import { ValueHistogram, type HistogramCounts } from './judge/value-histogram.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { PairResult } from './compare-outputs.ts'

const mostWorst = 100
/** Inputs of one pair that are kept, in bytes. */
const mostInputBytes = 64 * 1024
/** Stands for "cannot be compared" in the histogram and in JSON. */
const farthest = 1e12

type WorstPair = {
  readonly requestId: string
  readonly distance: number
  /** The outputs that differ, with the reason. */
  readonly why: readonly string[]
  /** Only where the step keeps inputs. */
  readonly inputs?: readonly KeptInput[]
}

/** `data` is base64; null: the inputs are too large to be kept. */
type KeptInput = {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly data: string | null
}

export type ShadowFigures = {
  readonly compared: number
  readonly disagreed: number
  /** Copies that were not made, by reason. */
  readonly dropped: Readonly<Record<string, number>>
  /** What the copies cost. */
  readonly executions: number
  readonly seconds: number
  readonly distances: HistogramCounts
  readonly worst: readonly WorstPair[]
}

const differenceText = ({ name, why }: PairResult['outputs'][number]): string => (name === '' ? why : `${name}: ${why}`)

function keptInputs(inputs: readonly Tensor[]): readonly KeptInput[] {
  const bytes = inputs.reduce((sum, input) => sum + input.bytes.length, 0)
  return inputs.map(({ name, dataType, shape, bytes: own }) => ({
    name,
    datatype: dataType,
    shape,
    data: bytes > mostInputBytes ? null : Buffer.from(own).toString('base64'),
  }))
}

export class ShadowRecord {
  #compared = 0
  #disagreed = 0
  #executions = 0
  #seconds = 0
  readonly #dropped = new Map<string, number>()
  readonly #distances = new ValueHistogram()
  /** Descending. */
  readonly #worst: WorstPair[] = []

  addPair(requestId: string, result: PairResult, inputs: readonly Tensor[] | null = null): void {
    this.#compared++
    const distance = Math.min(result.distance, farthest)
    this.#distances.add(distance)
    if (result.isEqual) return
    this.#disagreed++
    const last = this.#worst.at(-1)
    if (this.#worst.length >= mostWorst && last !== undefined && last.distance >= distance) return
    const why = result.outputs.filter((output) => !output.isEqual).map(differenceText)
    const at = this.#worst.findIndex((pair) => pair.distance < distance)
    this.#worst.splice(at === -1 ? this.#worst.length : at, 0, {
      requestId,
      distance,
      why,
      ...(inputs && { inputs: keptInputs(inputs) }),
    })
    if (this.#worst.length > mostWorst) this.#worst.pop()
  }

  addDropped(reason: string): void {
    this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1)
  }

  addCost(executions: number, seconds: number): void {
    this.#executions += executions
    this.#seconds += seconds
  }

  figures(): ShadowFigures {
    return {
      compared: this.#compared,
      disagreed: this.#disagreed,
      dropped: Object.fromEntries(this.#dropped),
      executions: this.#executions,
      seconds: this.#seconds,
      distances: this.#distances.counts(),
      worst: [...this.#worst],
    }
  }
}
