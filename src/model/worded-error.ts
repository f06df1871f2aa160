import { ServerError, withoutStack, type ErrorCode } from '../base/server-error.ts'
import { errorWords, type ErrorKind, type FactsOf, type WordedCall } from './error-words.ts'

type AnyRow = {
  readonly tritonCode: ErrorCode
  readonly triton: (facts: unknown) => string
  readonly ownCode: ErrorCode
  readonly own: (facts: unknown, call: WordedCall) => string
}

const rowOf = (kind: ErrorKind): AnyRow => errorWords[kind] as AnyRow

/** An error of the table: it has Triton's code and text, and knows Galatea's. */
export class WordedError extends ServerError {
  readonly kind: ErrorKind
  readonly facts: unknown
  /** Stands before Triton's text only. */
  readonly prefix: string

  constructor(kind: ErrorKind, facts: unknown, prefix = '') {
    const { tritonCode, triton } = rowOf(kind)
    super(tritonCode, prefix + triton(facts))
    this.kind = kind
    this.facts = facts
    this.prefix = prefix
  }

  inOwnWords(call: WordedCall): ServerError {
    const { ownCode, own } = rowOf(this.kind)
    return ServerError.withoutStack(ownCode, own(this.facts, call))
  }
}

/** Any client can cause these errors, one per request, so they have no stack trace. */
export const worded = <K extends ErrorKind>(kind: K, facts: FactsOf<K>): WordedError =>
  withoutStack(() => new WordedError(kind, facts))

/** What is wrong in the server's own words whatever --triton-defaults says: for protocols that Triton does not have. */
export function inOwnWords<T>(read: () => T): T {
  try {
    return read()
  } catch (reason) {
    if (!(reason instanceof WordedError)) throw reason
    throw reason.inOwnWords({ path: '', signature: null, header: () => null })
  }
}

/** The same error as part of a longer one: Triton puts more words in front. */
export function prefixedError(reason: unknown, prefix: string): ServerError {
  if (reason instanceof WordedError) {
    return withoutStack(() => new WordedError(reason.kind, reason.facts, prefix + reason.prefix))
  }
  const { code, message } = ServerError.from(reason)
  return ServerError.withoutStack(code, prefix + message)
}
