import { errorCodes, type ErrorCode } from '../../base/server-error.ts'

/** An error as the answer to a request: the client gets exactly this message and this code. */
export class InferenceError extends Error {
  readonly code: ErrorCode

  constructor(message: string, code: ErrorCode = 'INTERNAL', options?: ErrorOptions) {
    super(message, options)
    this.name = 'InferenceError'
    // A model in JavaScript has no compiler that finds a misspelt code.
    this.code = (errorCodes as readonly string[]).includes(code) ? code : 'INTERNAL'
  }
}
