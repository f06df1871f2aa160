// What the gRPC front end knows of its transport: calls to answer, each a path, metadata, messages in and messages out.
// Nothing here speaks of HTTP/2, so that the transport can be exchanged.

import type { PeerCertificate } from '../peer-certificate.ts'
import type { RequestMemory } from '../request-memory.ts'
import type { TrafficMeter } from '../traffic-meter.ts'
import type { GrpcStatus } from './grpc-status.ts'

/** A message in pieces, as the codec writes it. */
export type OutgoingMessage = { readonly parts: readonly Uint8Array[]; readonly byteLength: number }

export interface GrpcCall {
  /** `/package.Service/Method` */
  readonly path: string
  /** Name, value, name, value… in the client's order, names in lower case. Pseudo headers are among them. */
  readonly metadata: readonly string[]
  /** '' when unknown. Asking costs a system call. */
  readonly remoteAddress: string
  /** The certificate that the client showed; null for none. */
  peerCertificate?(): PeerCertificate | null
  /** True once the call was answered or is gone. What is sent after that is dropped. */
  readonly isEnded: boolean
  /** Bytes of messages that the client has not taken yet. */
  readonly backlogBytes: number
  /** Monotonic: when the client last took a message; 0 before. */
  readonly lastProgressNs: number
  /** Monotonic: when the client stops waiting; 0 or absent: it did not say. */
  readonly deadlineNs?: number
  /** A message is held until the call is answered or `messageDone` is called with it. */
  onMessage: ((message: Buffer) => void) | null
  /** The client has sent all its messages. */
  onHalfClose: (() => void) | null
  /** Once, when the client gave up, went away or its deadline has passed. The call is ended then. */
  onCancel: (() => void) | null
  /** The call is over and its stream is gone, whatever the reason. */
  onClosed: (() => void) | null
  /** The client has taken the whole backlog. */
  onDrain: (() => void) | null
  /** While paused no further message is delivered, and the client is held back by flow control. */
  setPaused(isPaused: boolean): void
  /** Of a stream: nothing looks at this message any more. A method that forgets this gets no further messages at some point. */
  messageDone(message: Buffer): void
  /** Counts what is held for the message beside its bytes, until the message is done. */
  memoryOf(message: Buffer): RequestMemory
  /** The call must bring a message soon. Without this a client may keep a call open and send nothing. */
  expectMessage(): void
  /** Names and values that the client gets before the first answer. Has no effect once that is sent. */
  leadWith(metadata: readonly string[]): void
  /** Names and values that the client gets after the last answer. */
  trailWith(metadata: readonly string[]): void
  /** `release` is called once the bytes are written or dropped. */
  send(message: OutgoingMessage, release: (() => void) | null): void
  /** The one message of a unary answer, and status OK. */
  sendLast(message: OutgoingMessage, release: (() => void) | null): void
  /** Ends the call; messages sent before go out first. Twice is fine. */
  finish(status: GrpcStatus): void
  /** Drops what the client has not taken and breaks the call off. The client sees RESOURCE_EXHAUSTED. */
  giveUp(): void
  /** Messages of this call may be compressed, if the client accepts that. */
  allowCompression(): void
  /** Messages to this call may hold tensors or models. Other messages are small, and larger ones are refused. */
  allowLargeMessages(): void
}

export interface GrpcTransport {
  /** Bytes that went over its connections. */
  readonly traffic: TrafficMeter
  listen(): Promise<{ address: string; port: number }>
  /** Tells clients to go elsewhere; resolves when the last call has ended and the connections are closed. */
  drain(): Promise<void>
  /** Ends everything at once. Twice is fine. */
  close(): Promise<void>
}

/** Called for each call as its headers arrive. */
export type CallHandler = (call: GrpcCall) => void

/** The last value of that name. */
export function metadataValue(metadata: readonly string[], name: string): string | null {
  for (let i = metadata.length - 2; i >= 0; i -= 2) if (metadata[i] === name) return metadata[i + 1] as string
  return null
}
