// gRPC's framing: one byte that says whether the message is compressed, four of length (big-endian), the message.

import { promisify } from 'node:util'
import { deflate, gunzip, gzip, inflate } from 'node:zlib'
import { messageOf } from '../../base/server-error.ts'
import type { Compression } from '../infer-request.ts'
import { InferenceError } from '../inference-error.ts'

const headBytes = 5
const packers = { gzip: promisify(gzip), deflate: promisify(deflate) }
const unpackers = { gzip: promisify(gunzip), deflate: promisify(inflate) }

/** One buffer with the frame. 1 copy. */
export async function frameOf(parts: readonly Uint8Array[], compression: Compression): Promise<Buffer> {
  if (compression === 'none') return frame(parts, 0)
  return frame([await packers[compression](Buffer.concat(parts))], 1)
}

function frame(parts: readonly Uint8Array[], isCompressed: 0 | 1): Buffer {
  let length = 0
  for (const part of parts) length += part.length
  const bytes = Buffer.allocUnsafe(headBytes + length)
  bytes[0] = isCompressed
  bytes.writeUInt32BE(length, 1)
  let at = headBytes
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

/** Chunks as the network cut them → whole messages. Throws when the last one is cut off or one is over the limit. */
export async function* messagesOf(
  chunks: AsyncIterable<Uint8Array>,
  encoding: () => string,
  maxMessageBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const head = Buffer.alloc(headBytes)
  let headFilled = 0
  let body: Buffer | null = null
  let bodyFilled = 0
  for await (const chunk of chunks) {
    let at = 0
    while (at < chunk.length || (body !== null && bodyFilled === body.length)) {
      if (body === null) {
        const part = chunk.subarray(at, at + headBytes - headFilled)
        head.set(part, headFilled)
        headFilled += part.length
        at += part.length
        if (headFilled < headBytes) continue
        const length = head.readUInt32BE(1)
        if (length > maxMessageBytes) {
          throw new InferenceError(
            'PROTOCOL',
            `the answer has ${length} bytes, more than maxMessageBytes (${maxMessageBytes})`,
          )
        }
        // Memory of its own, so that offsets in it are as aligned as in the message, and nothing else is kept alive.
        body = Buffer.allocUnsafeSlow(length)
        bodyFilled = 0
        continue
      }
      const part = chunk.subarray(at, at + body.length - bodyFilled)
      body.set(part, bodyFilled)
      bodyFilled += part.length
      at += part.length
      if (bodyFilled === body.length) {
        yield head[0] === 0 ? body : await unpack(body, encoding(), maxMessageBytes)
        body = null
        headFilled = 0
      }
    }
  }
  if (headFilled > 0) throw new InferenceError('UNREACHABLE', 'the answer broke off in the middle of a message')
}

async function unpack(body: Buffer, encoding: string, maxOutputLength: number): Promise<Uint8Array> {
  if (encoding !== 'gzip' && encoding !== 'deflate') {
    throw new InferenceError('PROTOCOL', `the answer is compressed as '${encoding}', which was not asked for`)
  }
  try {
    return await unpackers[encoding](body, { maxOutputLength })
  } catch (reason) {
    throw new InferenceError('PROTOCOL', `the answer cannot be unpacked: ${messageOf(reason)}`, { cause: reason })
  }
}
