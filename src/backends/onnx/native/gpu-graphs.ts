// CUDA graphs of one runner: ONNX Runtime records the kernels of a run under a number, and starts all of them together when a
// run has that number again. Such a run reads and writes the addresses of the first one, whatever values it is given.
//
// A shape runs once without a graph: what is wrong with it shows, and its memory is there when the next run is recorded.
// After a recording that failed, ONNX Runtime would answer with a graph that computes nothing, so nothing runs any more.

import type { GpuLane } from './gpu-lane.ts'

/** The most graphs of an Instance, because each keeps memory. Runs of further shapes go without. */
const mostGraphs = 32

/** ONNX Runtime's word for a run without a graph. */
const withoutGraph = -1

type Graph = { readonly id: number; isRecorded: boolean }

export class GpuGraphs {
  readonly #setOption: (key: string, value: string) => void
  /** From the shapes of a run and the address of its memory. Null: that came once. */
  readonly #graphs = new Map<string, Graph | null>()
  #lastId = 0
  #current: number | null = null
  #recording: Graph | null = null
  #isSpoiled = false

  constructor(setOption: (key: string, value: string) => void) {
    this.#setOption = setOption
  }

  get count(): number {
    return this.#lastId
  }

  get isRecording(): boolean {
    return this.#recording !== null
  }

  /** True: a recording has failed, and the session must not be used. */
  get isSpoiled(): boolean {
    return this.#isSpoiled
  }

  /**
   * Before each run; `finished` follows. `key` null: the run cannot be repeated. `mayRecord` false: nothing new is recorded.
   * True: the run is recorded, and must be alone.
   */
  choose(key: string | null, lane: Pick<GpuLane, 'deviceAddress' | 'isOverBudget'>, mayRecord = true): boolean {
    // Memory above the budget is given back after the run, and its address with it.
    const graph = key === null || lane.isOverBudget ? null : this.#find(`${key}@${lane.deviceAddress}`, mayRecord)
    const id = graph?.id ?? withoutGraph
    if (id !== this.#current) {
      this.#current = id
      this.#setOption('gpu_graph_id', String(id))
    }
    this.#recording = graph === null || graph.isRecorded ? null : graph
    return this.#recording !== null
  }

  finished(isGood: boolean): void {
    if (this.#recording === null) return
    this.#recording.isRecorded = isGood
    this.#recording = null
    if (!isGood) this.#isSpoiled = true
  }

  #find(key: string, mayRecord: boolean): Graph | null {
    const known = this.#graphs.get(key)
    if (known !== undefined && known !== null) return known
    if (this.#lastId >= mostGraphs || (known === null && !mayRecord)) return null
    if (known === null) {
      const graph = { id: ++this.#lastId, isRecorded: false }
      this.#graphs.set(key, graph)
      return graph
    }
    this.#forgetSeen()
    this.#graphs.set(key, null)
    return null
  }

  /** Shapes that came once are remembered only so long, that many of them do not pile up. */
  #forgetSeen(): void {
    if (this.#graphs.size < 2 * mostGraphs) return
    for (const [key, graph] of this.#graphs) {
      if (graph !== null) continue
      this.#graphs.delete(key)
      return
    }
  }
}
