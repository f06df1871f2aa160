import type { ErrorCode, ServerError } from '../../base/server-error.ts'

/** gRPC's status codes, those that this server gives. */
export const statusCodes = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const
export type StatusCode = (typeof statusCodes)[keyof typeof statusCodes]

const codeOf: Record<ErrorCode, StatusCode> = {
  UNKNOWN: statusCodes.UNKNOWN,
  INTERNAL: statusCodes.INTERNAL,
  NOT_FOUND: statusCodes.NOT_FOUND,
  INVALID_ARG: statusCodes.INVALID_ARGUMENT,
  UNAVAILABLE: statusCodes.UNAVAILABLE,
  UNSUPPORTED: statusCodes.UNIMPLEMENTED,
  ALREADY_EXISTS: statusCodes.ALREADY_EXISTS,
  CANCELLED: statusCodes.CANCELLED,
  FORBIDDEN: statusCodes.PERMISSION_DENIED,
  EXHAUSTED: statusCodes.RESOURCE_EXHAUSTED,
}

/** The statuses of errors that many calls get. */
const made = new WeakMap<ServerError, GrpcStatus>()

/** How a call ends. */
export class GrpcStatus {
  readonly code: StatusCode
  readonly message: string
  /** When the call may come again, told in the trailers; 0: the client is not told. */
  readonly retryAfterMs: number
  /** The answer of a call that ends with this status and nothing else, once it was made: a status may end many calls. */
  headBlock: Buffer | null = null

  constructor(code: StatusCode, message: string, retryAfterMs = 0) {
    this.code = code
    this.message = message
    this.retryAfterMs = retryAfterMs
  }

  static of(error: ServerError): GrpcStatus {
    if (!error.isShared) return GrpcStatus.#made(error)
    let status = made.get(error)
    if (status === undefined) {
      status = GrpcStatus.#made(error)
      made.set(error, status)
    }
    return status
  }

  static #made(error: ServerError): GrpcStatus {
    const { code, message, retryAfterSecs } = error
    const isTemporary = code === 'EXHAUSTED' || code === 'UNAVAILABLE'
    return new GrpcStatus(codeOf[code], message, isTemporary ? Math.ceil(retryAfterSecs * 1000) : 0)
  }
}

export const statusOk = new GrpcStatus(statusCodes.OK, '')

/** Longer messages are cut: a status travels in headers, and clients refuse more than 8 KiB of those. */
const longestMessageBytes = 4096

/** `grpc-message`: UTF-8 with everything but printable ASCII, and the percent sign, percent-encoded. */
export function encodeStatusMessage(message: string): string {
  if (message.length <= longestMessageBytes && plain.test(message)) return message
  const bytes = Buffer.from(message)
  let text = ''
  for (const byte of bytes) {
    const next =
      byte >= 0x20 && byte <= 0x7e && byte !== 0x25
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    if (text.length + next.length > longestMessageBytes) break
    text += next
  }
  return text
}

const plain = /^[ -$&-~]*$/

/** The fields that end a call. */
export function trailersOf(status: GrpcStatus): (readonly [string, string])[] {
  const fields: [string, string][] = [['grpc-status', String(status.code)]]
  if (status.message !== '') fields.push(['grpc-message', encodeStatusMessage(status.message)])
  if (status.retryAfterMs > 0) {
    fields.push(['retry-after', String(Math.ceil(status.retryAfterMs / 1000))])
    fields.push(['grpc-retry-pushback-ms', String(status.retryAfterMs)])
  }
  return fields
}
