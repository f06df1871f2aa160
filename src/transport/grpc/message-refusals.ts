// The statuses of calls whose messages the server does not take: too large, no memory, not decompressible.

import type { ClientMemory } from '../client-memory.ts'
import type { InflateFailure } from '../inflate-queue.ts'
import { GrpcStatus, statusCodes } from './grpc-status.ts'
import { MessageTooLarge, MessageUnwelcome } from './message-assembler.ts'

/** The most bytes of a message of this call, and whether a flag moves that limit. */
export type MessageLimit = { readonly mostBytes: number; readonly isMovable: boolean }

const exhausted = (text: string): GrpcStatus => new GrpcStatus(statusCodes.RESOURCE_EXHAUSTED, text)

export const noRoomFor = (bytes: number, memory: ClientMemory): GrpcStatus => exhausted(memory.refuse(bytes))

/** `reason`: what the assembler of messages threw. */
export function assemblerRefusal(reason: unknown, limit: MessageLimit, memory: ClientMemory): GrpcStatus {
  if (reason instanceof MessageTooLarge) return tooLarge(String(reason.messageBytes), limit)
  if (reason instanceof MessageUnwelcome) return noRoomFor(reason.messageBytes, memory)
  return exhausted('the server has no memory for the message, try again later')
}

/** `bytes`: the size of the message as it came. */
export function inflateRefusal(
  failure: InflateFailure,
  bytes: number,
  encoding: string,
  limit: MessageLimit,
  memory: ClientMemory,
): GrpcStatus {
  if (failure === 'limit') return tooLarge('more after decompression', limit)
  if (failure === 'no-room') return noRoomFor(memory.inflations.firstLimit(bytes, limit.mostBytes), memory)
  if (failure === 'ratio') {
    const { mostPerByte } = memory.inflations
    const text = `a message of ${bytes} bytes exceeds ${mostPerByte} times its size after decompression`
    return exhausted(`${text}. Send it less compressed, or use --max-decompression-ratio to increase the limit.`)
  }
  return new GrpcStatus(statusCodes.INTERNAL, `a message could not be decompressed as ${encoding}`)
}

function tooLarge(bytes: string, { mostBytes, isMovable }: MessageLimit): GrpcStatus {
  const hint = isMovable
    ? 'Use --grpc-max-message-size to increase the limit.'
    : 'Only methods that take tensors or models take larger messages.'
  return exhausted(`Received message larger than max (${bytes} vs. ${mostBytes}). ${hint}`)
}
