import { ServerError, withoutStack } from '../base/server-error.ts'
import type { WordedCall } from './error-words.ts'
import { WordedError } from './worded-error.ts'

/** What is UNAVAILABLE may be there soon: a worker that starts again, a queue with room. */
const retryAfterSecs = 1

/** For errors that no call caused, or whose call says nothing about the model. */
export const noCall: WordedCall = { path: '', signature: null, header: () => null }

/** How errors are told to clients: in Triton's words (`--triton-defaults`), or in Galatea's own. */
export class ErrorWording {
  readonly isTriton: boolean

  constructor(isTriton: boolean) {
    this.isTriton = isTriton
  }

  /** What was told once stays as it is. */
  tell(reason: unknown, call: WordedCall = noCall): ServerError {
    const error = ServerError.from(reason)
    if (this.isTriton) return error
    const told = error instanceof WordedError ? error.inOwnWords(call) : error
    if (told.code !== 'UNAVAILABLE' || told.retryAfterSecs > 0) return told
    return withoutStack(() => new ServerError('UNAVAILABLE', told.message, { cause: told.cause, retryAfterSecs }))
  }
}
