import type { ModelTensor } from './model-tensor.ts'

/** An answer with which the model asks for the request again. */
export class Reschedule {
  readonly states: readonly ModelTensor[]

  constructor(states: readonly ModelTensor[]) {
    this.states = states
  }
}

/**
 * A model with `iterative_sequence: true` returns this, or yields it last, in place of a response: the request comes
 * again in a later batch. `states` are outputs that the configuration lists as states; they come back as inputs.
 */
export const reschedule = (states: readonly ModelTensor[] = []): Reschedule => new Reschedule(states)
