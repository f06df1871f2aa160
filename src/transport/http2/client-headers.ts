// Headers of a gRPC client. The blocks of requests are prepared once per connection. The server is told to use no table
// (SETTINGS_HEADER_TABLE_SIZE = 0), so the headers of equal answers have equal bytes.

import { encodeHeaderBlock, encodeIndexed, encodeKept, type HeaderField } from './hpack-encoder.ts'
import { staticFieldIndex, staticFields } from './hpack-static-table.ts'

/**
 * The block for the first request of a connection, which puts every field into the server's table, and the block for all
 * that follow, which names the entries. Without a table both spell the fields out.
 */
export function requestBlocks(
  fields: readonly HeaderField[],
  hasTable: boolean,
): { readonly first: Buffer; readonly later: Buffer } {
  const isKept = ([name, value]: HeaderField): boolean => hasTable && staticFieldIndex(name, value) === 0
  const kept = fields.filter(isKept)
  // The newest entry has the lowest number.
  const indexOf = (field: HeaderField): number => staticFields.length + kept.length - kept.indexOf(field)
  const first = fields.map((field) => (isKept(field) ? encodeKept(field) : encodeHeaderBlock([field])))
  const later = fields.map((field) => (isKept(field) ? encodeIndexed(indexOf(field)) : encodeHeaderBlock([field])))
  return { first: Buffer.concat(first), later: Buffer.concat(later) }
}

/** What the fields take in the server's table, by RFC 7541, 4.1. */
export const tableBytes = (fields: readonly HeaderField[]): number =>
  fields.reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value) + 32, 0)

export type AnswerHeaders = {
  /** 0 where the block has none. */
  readonly httpStatus: number
  /** -1 where the block has none. */
  readonly grpcStatus: number
  readonly grpcMessage: string
  readonly encoding: string
}

/** `fields`: name, value, name, value… */
export function readAnswerHeaders(fields: readonly string[]): AnswerHeaders {
  const found = { httpStatus: 0, grpcStatus: -1, grpcMessage: '', encoding: '' }
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i], fields[i + 1] as string]
    if (name === ':status') found.httpStatus = Number(value)
    else if (name === 'grpc-status') found.grpcStatus = Number(value)
    else if (name === 'grpc-message') found.grpcMessage = percentDecoded(Buffer.from(value, 'latin1').toString())
    else if (name === 'grpc-encoding') found.encoding = value
  }
  return found
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // The text is not encoded: it is shown as it came.
    return text
  }
}
