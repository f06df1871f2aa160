// The one error type inside the server. Codes are Triton's eight and two of access control; each front end maps them in one
// table.

export const errorCodes = [
  'UNKNOWN',
  'INTERNAL',
  'NOT_FOUND',
  'INVALID_ARG',
  'UNAVAILABLE',
  'UNSUPPORTED',
  'ALREADY_EXISTS',
  'CANCELLED',
] as const
/** FORBIDDEN and EXHAUSTED come from `--access-config` alone: a model cannot give them. */
export type ErrorCode = (typeof errorCodes)[number] | 'FORBIDDEN' | 'EXHAUSTED'

/** How Triton writes a code inside a longer message, as in `version 1 is at UNAVAILABLE state: Invalid argument: …`. */
export const errorCodeText: Record<ErrorCode, string> = {
  UNKNOWN: 'Unknown',
  INTERNAL: 'Internal',
  NOT_FOUND: 'Not found',
  INVALID_ARG: 'Invalid argument',
  UNAVAILABLE: 'Unavailable',
  UNSUPPORTED: 'Unsupported',
  ALREADY_EXISTS: 'Already exists',
  CANCELLED: 'Cancelled',
  FORBIDDEN: 'Forbidden',
  EXHAUSTED: 'Exhausted',
}

type ServerErrorOptions = ErrorOptions & { readonly retryAfterSecs?: number; readonly isShared?: boolean }

export class ServerError extends Error {
  readonly code: ErrorCode
  /** When the client may try again; 0: the client is not told. */
  readonly retryAfterSecs: number
  /** True: many requests get this one object, so its answer is worth keeping. */
  readonly isShared: boolean

  constructor(code: ErrorCode, message: string, options?: ServerErrorOptions) {
    super(message, options)
    this.name = 'ServerError'
    this.code = code
    this.retryAfterSecs = options?.retryAfterSecs ?? 0
    this.isShared = options?.isShared ?? false
  }

  /** For refusals made per request, perhaps thousands a second: collecting a stack costs 10 µs and tells nothing. */
  static withoutStack(code: ErrorCode, message: string, retryAfterSecs = 0): ServerError {
    return withoutStack(() => new ServerError(code, message, { retryAfterSecs }))
  }

  /** For a refusal that thousands of requests a second get in the same words. Who makes it keeps it. */
  static shared(code: ErrorCode, message: string, retryAfterSecs: number): ServerError {
    return withoutStack(() => new ServerError(code, message, { retryAfterSecs, isShared: true }))
  }

  /** At a boundary: what is not a ServerError was not foreseen, so it is INTERNAL and keeps its cause. */
  static from(reason: unknown, prefix = ''): ServerError {
    if (reason instanceof ServerError && prefix === '') return reason
    const code = reason instanceof ServerError ? reason.code : 'INTERNAL'
    return new ServerError(code, prefix + messageOf(reason), { cause: reason })
  }
}

export function withoutStack<T extends Error>(make: () => T): T {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return make()
  } finally {
    Error.stackTraceLimit = limit
  }
}

export function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason)
}
