// The graph of an ensemble, worked out once at load. A request only looks things up.

import type { ComposingConfigs } from './ensemble-consistency.ts'
import type { ModelConfig } from './model-config.ts'
import type { ModelSignature } from './model-signature.ts'

export type StepInput = {
  /** The tensor's name in the called model. */
  readonly name: string
  /** The tensor's name in the ensemble. */
  readonly tensor: string
  /** Dimensions that the called model expects, its batch dimension included. */
  readonly rank: number
  readonly isBatching: boolean
}

export type EnsembleStep = {
  readonly index: number
  readonly modelName: string
  /** '' = the version that the policy picks. */
  readonly modelVersion: string
  readonly inputs: readonly StepInput[]
  readonly outputs: readonly { readonly name: string; readonly tensor: string }[]
  readonly isDecoupled: boolean
  /**
   * The index of the decoupled step whose single responses this step works on; -1 when this step runs once per request.
   * The rules of consistency allow only one such step.
   */
  readonly origin: number
}

/** What has to run for the outputs that one kind of request asks for. */
export type EnsembleSelection = {
  readonly steps: readonly EnsembleStep[]
  /** Tensors that a running step or the client needs. */
  readonly tensors: ReadonlySet<string>
  /** The outputs that the client asks for, in the order of the answer. */
  readonly outputs: readonly string[]
  /** The decoupled step whose every response makes one response of the ensemble; -1 when the ensemble answers once. */
  readonly origin: number
}

export class EnsemblePlan {
  readonly name: string
  readonly steps: readonly EnsembleStep[]
  /** Requests that one step may have in flight, over all requests to the ensemble. */
  readonly maxInflightRequests: number
  readonly #signature: ModelSignature
  /** Steps are left out, and answers made, as Triton does it. */
  readonly isLikeTriton: boolean
  readonly #producers = new Map<string, EnsembleStep>()
  readonly #selections = new Map<string, EnsembleSelection>()

  constructor(
    config: ModelConfig,
    signature: ModelSignature,
    models: ComposingConfigs,
    options: { readonly isLikeTriton: boolean },
  ) {
    this.name = config.name
    this.#signature = signature
    this.isLikeTriton = options.isLikeTriton
    const { step: drafts = [], maxInflightRequests = 0 } = config.ensembleScheduling ?? {}
    this.maxInflightRequests = maxInflightRequests > 0 ? maxInflightRequests : Infinity
    const called = drafts.map(models)
    const isDecoupled = (index: number): boolean => called[index]?.modelTransactionPolicy?.decoupled ?? false
    const writers = new Map(
      drafts.flatMap((draft, i) => [...draft.outputMap.values()].map((name) => [name, i] as const)),
    )
    const origins = new Map<number, number>()
    const originOf = (index: number): number => {
      let origin = origins.get(index)
      if (origin !== undefined) return origin
      origin = -1
      for (const tensor of drafts[index]?.inputMap.values() ?? []) {
        const writer = writers.get(tensor)
        if (writer === undefined) continue
        origin = isDecoupled(writer) ? writer : originOf(writer)
        if (origin >= 0) break
      }
      origins.set(index, origin)
      return origin
    }
    this.steps = drafts.map((draft, index) => ({
      index,
      modelName: draft.modelName,
      modelVersion: draft.modelVersion < 0 ? '' : String(draft.modelVersion),
      inputs: [...draft.inputMap].map(([name, tensor]) => stepInput(name, tensor, called[index])),
      outputs: [...draft.outputMap].map(([name, tensor]) => ({ name, tensor })),
      isDecoupled: isDecoupled(index),
      origin: originOf(index),
    }))
    for (const step of this.steps) for (const { tensor } of step.outputs) this.#producers.set(tensor, step)
  }

  /** One entry per combination of outputs. Clients ask for few combinations, and only a few are kept. */
  select(requestedOutputs: readonly string[]): EnsembleSelection {
    const key = requestedOutputs.join('\n')
    let selection = this.#selections.get(key)
    if (selection === undefined) {
      selection = this.#work(requestedOutputs)
      if (this.#selections.size < maxSelections) this.#selections.set(key, selection)
    }
    return selection
  }

  /** -1 for a tensor that exists once per request. */
  #originOfTensor(tensor: string): number {
    const step = this.#producers.get(tensor)
    if (step === undefined) return -1
    return step.isDecoupled ? step.index : step.origin
  }

  #work(requestedOutputs: readonly string[]): EnsembleSelection {
    const all = this.#signature.outputs.map((output) => output.name)
    // Triton answers in the order of its hash map, which for few outputs is the order of the configuration backwards.
    const outputs = (
      requestedOutputs.length === 0 ? all : all.filter((name) => requestedOutputs.includes(name))
    ).toReversed()
    const steps = new Set<EnsembleStep>()
    const tensors = new Set(outputs)
    const open = [...outputs]
    for (let tensor = open.pop(); tensor !== undefined; tensor = open.pop()) {
      const step = this.#producers.get(tensor)
      if (step === undefined || steps.has(step)) continue
      steps.add(step)
      for (const input of step.inputs) {
        tensors.add(input.tensor)
        open.push(input.tensor)
      }
    }
    const pruned = this.isLikeTriton ? this.#prunedByTriton(all.filter((name) => !outputs.includes(name))) : null
    return {
      steps: this.steps.filter((step) => steps.has(step) && pruned?.has(step) !== true),
      tensors,
      outputs,
      origin: outputs.map((name) => this.#originOfTensor(name)).find((origin) => origin >= 0) ?? -1,
    }
  }

  /**
   * Triton counts the unneeded outputs of a step, and drops the step when the count reaches the number of its outputs. It
   * counts some of them twice, so it also drops steps whose other outputs are still needed. A request for these outputs then
   * fails; golden records show this.
   */
  #prunedByTriton(unrequested: readonly string[]): Set<EnsembleStep> {
    const pruned = new Set<EnsembleStep>()
    const left = new Map(this.steps.map((step) => [step, step.outputs.length]))
    const readers = new Map<string, Set<EnsembleStep>>()
    for (const step of this.steps) {
      for (const { tensor } of step.inputs) readers.set(tensor, (readers.get(tensor) ?? new Set()).add(step))
    }
    for (let ignored = new Set(unrequested); ignored.size > 0;) {
      const next = new Set<string>()
      for (const tensor of ignored) {
        const step = this.#producers.get(tensor)
        if (step === undefined) continue
        const count = (left.get(step) ?? 0) - 1
        left.set(step, count)
        if (count !== 0) continue
        pruned.add(step)
        for (const input of step.inputs) {
          const others = readers.get(input.tensor)
          others?.delete(step)
          if (others?.size === 0) next.add(input.tensor)
        }
      }
      ignored = next
    }
    return pruned
  }
}

const maxSelections = 256

function stepInput(name: string, tensor: string, model: ModelConfig | undefined): StepInput {
  const isBatching = (model?.maxBatchSize ?? 0) > 0
  const dims = model?.input.find((input) => input.name === name)?.dims ?? []
  return { name, tensor, rank: dims.length + (isBatching ? 1 : 0), isBatching }
}
