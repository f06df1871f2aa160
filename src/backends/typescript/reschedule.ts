import type { ModelTensor } from './model-tensor.ts'

/** Stands in for an answer: the model wants the request again. */
export class Reschedule {
  readonly states: readonly ModelTensor[]

  constructor(states: readonly ModelTensor[]) {
    this.states = states
  }
}

/**
 * Returned, or yielded last, in place of a response by a model with `iterative_sequence: true`: the request comes again in
 * a later batch. `states` are outputs that the configuration lists as states; they come back as inputs.
 */
export const reschedule = (states: readonly ModelTensor[] = []): Reschedule => new Reschedule(states)
