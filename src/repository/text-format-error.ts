import { ServerError } from '../base/server-error.ts'

/** Lines and columns count from 1, as editors show them. */
export type Position = { readonly line: number; readonly column: number }

/** A mistake in a configuration's text: `<line>:<column>: <what>`. The hint is for people and not part of the message. */
export class TextFormatError extends ServerError {
  readonly position: Position
  readonly what: string
  readonly hint: string

  constructor(position: Position, what: string, hint = '') {
    super('INVALID_ARG', `${position.line}:${position.column}: ${what}`)
    this.name = 'TextFormatError'
    this.position = position
    this.what = what
    this.hint = hint
  }
}
