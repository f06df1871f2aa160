import type { Action } from './action.ts'

/** What a caller may do. */
export interface Rights {
  /** Whether the caller may do this to this model. HOT: once per inference of a caller with rights. */
  may(action: Action, model: string): boolean
  /** Whether the caller may do this to any model, or to the server: what a call without a model needs. */
  mayAny(action: Action): boolean
}
