import { errorCodes, type ErrorCode } from '../../base/server-error.ts'

/** An answer that says no: the client gets this message and this code, word for word. */
export class InferenceError extends Error {
  readonly code: ErrorCode

  constructor(message: string, code: ErrorCode = 'INTERNAL', options?: ErrorOptions) {
    super(message, options)
    this.name = 'InferenceError'
    // A model written in JavaScript has no compiler to tell it of a misspelt code.
    this.code = errorCodes.includes(code) ? code : 'INTERNAL'
  }
}
