// What a request's headers say, checked once (RFC 9113, 8.2 and 8.3).

import { metadataValue } from '../grpc/grpc-transport.ts'

export class RequestHead {
  /** Name, value, name, value… with the pseudo headers among them. */
  readonly metadata: readonly string[]
  readonly path: string
  /** Null: no deadline. */
  readonly timeoutNs: number | null
  /** Null: the client compresses nothing. */
  readonly encoding: string | null
  /** -1: not given. */
  readonly contentBytes: number
  /** 0 for a gRPC call, else the HTTP status that says what is wrong with the request. */
  readonly refusalStatus: number

  constructor(metadata: readonly string[], contentBytes: number, refusalStatus: number) {
    this.metadata = metadata
    this.path = metadataValue(metadata, ':path') ?? ''
    this.timeoutNs = parseTimeoutNs(metadataValue(metadata, 'grpc-timeout'))
    this.encoding = metadataValue(metadata, 'grpc-encoding')
    this.contentBytes = contentBytes
    this.refusalStatus = refusalStatus
  }
}

/** Null for a request that breaks the rules of HTTP/2. */
export function parseRequestHead(fields: readonly string[]): RequestHead | null {
  if (!areFieldsValid(fields)) return null
  const method = pseudoValue(fields, ':method')
  const path = pseudoValue(fields, ':path')
  const scheme = pseudoValue(fields, ':scheme')
  if (method === null || path === null || scheme === null || method === '' || scheme === '') return null
  if (!path.startsWith('/') && !(path === '*' && method === 'OPTIONS')) return null
  const contentLength = metadataValue(fields, 'content-length')
  if (contentLength !== null && !/^\d{1,15}$/.test(contentLength)) return null
  const isGrpc = (metadataValue(fields, 'content-type') ?? '').startsWith('application/grpc')
  const refusalStatus = method === 'POST' ? (isGrpc ? 0 : 415) : 405
  return new RequestHead(fields, contentLength === null ? -1 : Number(contentLength), refusalStatus)
}

/** Fields behind the body: no pseudo headers among them. */
export const areTrailersValid = (fields: readonly string[]): boolean =>
  areFieldsValid(fields) && !(fields[0]?.startsWith(':') ?? false)

const requestPseudoNames: ReadonlySet<string> = new Set([':method', ':scheme', ':path', ':authority'])
/** Fields about a connection of HTTP/1, which HTTP/2 forbids. */
const connectionNames: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])
const validName = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
// eslint-disable-next-line no-control-regex -- These characters are what the pattern looks for.
const invalidValue = /[\0\r\n]/
const hasOuterSpace = /^[ \t]|[ \t]$/

/**
 * RFC 9113 forbids spaces around values. Clients of gRPC send metadata with such spaces all the same, and gRPC's own servers
 * hand the value over as it came, so this server does too.
 */
function areFieldsValid(fields: readonly string[]): boolean {
  let isAfterPseudo = false
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    const value = fields[i + 1] as string
    if (name.startsWith(':')) {
      if (hasOuterSpace.test(value)) return false
      if (isAfterPseudo || !requestPseudoNames.has(name) || fields.indexOf(name) !== i) return false
    } else {
      isAfterPseudo = true
      if (!validName.test(name) || connectionNames.has(name)) return false
      if (name === 'te' && value !== 'trailers') return false
    }
    if (invalidValue.test(value)) return false
  }
  return true
}

const pseudoValue = (fields: readonly string[], name: string): string | null => {
  const at = fields.indexOf(name)
  return at < 0 ? null : (fields[at + 1] as string)
}

const timeoutUnitsNs: Readonly<Record<string, number>> = { H: 3.6e12, M: 6e10, S: 1e9, m: 1e6, u: 1e3, n: 1 }

/** `grpc-timeout`: up to eight digits and a unit. Any other text means no deadline. */
export function parseTimeoutNs(text: string | null): number | null {
  const match = text === null ? null : /^(\d{1,8})([HMSmun])$/.exec(text)
  return match === null ? null : Number(match[1]) * (timeoutUnitsNs[match[2] as string] as number)
}
