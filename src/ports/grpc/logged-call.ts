import { anonymous, type Caller } from '../../access/caller.ts'
import type { AccessLog } from '../../base/access-log.ts'
import type { Clock } from '../../base/clock.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { GrpcStatus, statusCodes, type StatusCode } from '../../transport/grpc/grpc-status.ts'
import type { PeerCertificate } from '../../transport/peer-certificate.ts'
import type { RequestMemory } from '../../transport/request-memory.ts'
import type { PortCall } from './port-call.ts'
import { metadataValue, type OutgoingMessage } from '../../transport/grpc/grpc-transport.ts'

/** A call that writes a line into the access log when it ends; a stream also writes one for each of its requests. */
export class LoggedCall implements PortCall {
  readonly path: string
  readonly metadata: readonly string[]
  readonly #inner: PortCall
  readonly #log: AccessLog
  readonly #clock: Clock
  #startNs: number
  #bytesIn = 0
  #bytesOut = 0
  #inference: InferenceRequest | null = null
  #modelVersion = ''
  #isWritten = false
  #caller = anonymous

  constructor(inner: PortCall, log: AccessLog, clock: Clock) {
    this.path = inner.path
    this.metadata = inner.metadata
    this.#inner = inner
    this.#log = log
    this.#clock = clock
    this.#startNs = clock.nowNs()
    inner.onCancel = () => this.#end(statusCodes.CANCELLED, true)
  }

  get remoteAddress(): string {
    return this.#inner.remoteAddress
  }
  peerCertificate(): PeerCertificate | null {
    return this.#inner.peerCertificate?.() ?? null
  }
  get isEnded(): boolean {
    return this.#inner.isEnded
  }
  get backlogBytes(): number {
    return this.#inner.backlogBytes
  }
  get lastProgressNs(): number {
    return this.#inner.lastProgressNs
  }
  get onMessage(): ((message: Buffer) => void) | null {
    return this.#inner.onMessage
  }
  set onMessage(listener: ((message: Buffer) => void) | null) {
    this.#inner.onMessage =
      listener === null
        ? null
        : (message) => {
            // The duration of a unary call starts when its request has arrived, as for an HTTP request.
            if (this.#bytesIn === 0) this.#startNs = this.#clock.nowNs()
            this.#bytesIn += message.length
            listener(message)
          }
  }
  get onHalfClose(): (() => void) | null {
    return this.#inner.onHalfClose
  }
  set onHalfClose(listener: (() => void) | null) {
    this.#inner.onHalfClose = listener
  }
  get onCancel(): (() => void) | null {
    return this.#inner.onCancel
  }
  set onCancel(listener: (() => void) | null) {
    this.#inner.onCancel = () => {
      this.#end(statusCodes.CANCELLED, true)
      listener?.()
    }
  }
  get onClosed(): (() => void) | null {
    return this.#inner.onClosed
  }
  set onClosed(listener: (() => void) | null) {
    this.#inner.onClosed = listener
  }
  get onDrain(): (() => void) | null {
    return this.#inner.onDrain
  }
  set onDrain(listener: (() => void) | null) {
    this.#inner.onDrain = listener
  }

  noteCaller(caller: Caller): void {
    this.#caller = caller
  }

  /** For a unary call. */
  noteInference(inference: InferenceRequest, version: string): void {
    this.#inference = inference
    this.#modelVersion = version
  }

  /** For a stream: one of its requests has ended. */
  inferenceEnded(inference: InferenceRequest, version: string, code: StatusCode): void {
    this.#write(code, false, inference, version, null, null, this.#clock.nowNs() - inference.receivedNs)
  }

  setPaused(isPaused: boolean): void {
    this.#inner.setPaused(isPaused)
  }

  messageDone(message: Buffer): void {
    this.#inner.messageDone(message)
  }

  memoryOf(message: Buffer): RequestMemory {
    return this.#inner.memoryOf(message)
  }

  leadWith(metadata: readonly string[]): void {
    this.#inner.leadWith(metadata)
  }
  trailWith(metadata: readonly string[]): void {
    this.#inner.trailWith(metadata)
  }

  expectMessage(): void {
    this.#inner.expectMessage()
  }

  send(message: OutgoingMessage, release: (() => void) | null): void {
    this.#bytesOut += message.byteLength
    this.#inner.send(message, release)
  }

  sendLast(message: OutgoingMessage, release: (() => void) | null): void {
    this.#bytesOut += message.byteLength
    this.#inner.sendLast(message, release)
    this.#end(statusCodes.OK, false)
  }

  finish(status: GrpcStatus): void {
    this.#inner.finish(status)
    this.#end(status.code, false)
  }

  giveUp(): void {
    this.#inner.giveUp()
    this.#end(statusCodes.RESOURCE_EXHAUSTED, true)
  }

  allowCompression(): void {
    this.#inner.allowCompression()
  }

  allowLargeMessages(): void {
    this.#inner.allowLargeMessages()
  }

  #end(code: StatusCode, isAborted: boolean): void {
    if (this.#isWritten) return
    this.#isWritten = true
    const totalNs = this.#clock.nowNs() - this.#startNs
    this.#write(code, isAborted, this.#inference, this.#modelVersion, this.#bytesIn, this.#bytesOut, totalNs)
  }

  #write(
    status: StatusCode,
    isAborted: boolean,
    inference: InferenceRequest | null,
    modelVersion: string,
    bytesIn: number | null,
    bytesOut: number | null,
    totalNs: number,
  ): void {
    this.#log.write({
      protocol: 'grpc',
      method: this.path.slice(this.path.lastIndexOf('/') + 1),
      path: this.path,
      status,
      client: this.#inner.remoteAddress,
      caller: this.#caller.principal,
      tenant: this.#caller.tenant,
      bytesIn,
      bytesOut,
      totalNs,
      isAborted,
      traceparent: metadataValue(this.metadata, 'traceparent') ?? '',
      modelVersion,
      inference,
    })
  }
}
