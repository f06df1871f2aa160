import type { Caller } from '../../access/caller.ts'
import { runInSlices } from '../../base/run-in-slices.ts'
import type { ServerError } from '../../base/server-error.ts'
import type { HeldMemory } from '../../exchange/held-memory.ts'
import {
  InferenceExchange,
  type ArrivalNames,
  type ExchangeParts,
  type Preparation,
} from '../../exchange/inference-exchange.ts'
import { slicedReading } from '../../exchange/sliced-reading.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { MessageParts } from '../../protocol/grpc/infer-response-writer.ts'
import { GrpcStatus } from '../../transport/grpc/grpc-status.ts'
import { metadataValue } from '../../transport/grpc/grpc-transport.ts'
import type { PortCall } from './port-call.ts'

const arrivalNames: ArrivalNames = ['GRPC_WAITREAD_START', 'GRPC_WAITREAD_END']

/** An inference that came by gRPC: the facts of its call, and the memory of its message. */
export abstract class CallExchange extends InferenceExchange {
  protected readonly call: PortCall
  /** The message as it came. Its memory is counted until the request ends. */
  protected readonly received: Buffer

  constructor(parts: ExchangeParts, call: PortCall, caller: Caller, received: Buffer) {
    super(parts, caller, true)
    this.call = call
    this.received = received
  }

  get protocol(): 'grpc' {
    return 'grpc'
  }
  get path(): string {
    return this.call.path
  }
  get peer(): string {
    return this.call.remoteAddress
  }
  header(name: string): string | null {
    return metadataValue(this.call.metadata, name)
  }

  /** In the initial metadata, which is there before the first answer. */
  protected tellMarks(): void {
    if (this.marks !== null) this.call.leadWith(this.marks)
  }

  /** In the trailers, where balancers look for it. */
  protected tellLoad(): void {
    const load = this.loadHeader('bin')
    if (load !== null) this.call.trailWith(load)
  }

  /** Sends the only answer of the call, and releases it when its bytes are written. HOT: once per inference. */
  protected sendOnly(message: MessageParts, answer: InferenceResponse): void {
    const { clock } = this.parts
    const trace = this.request?.trace ?? null
    this.tellMarks()
    this.tellLoad()
    trace?.stamp('GRPC_SEND_START', clock.nowNs())
    this.call.sendLast(message, message.hasViews ? () => answer.release() : null)
    if (!message.hasViews) answer.release()
    trace?.stamp('GRPC_SEND_END', clock.nowNs())
  }

  // Errors as most protocols tell them: with the status of the call.
  protected override refused(error: ServerError): void {
    this.fail(error)
  }

  protected override fail(error: ServerError, _isFinal?: boolean): void {
    this.tellMarks()
    this.tellLoad()
    this.call.finish(this.statusOf(error))
  }

  protected statusOf(error: ServerError): GrpcStatus {
    return GrpcStatus.of(error)
  }

  /** Reads a large message in slices, so that other calls do not wait for all of it. */
  protected readInSlices<T>(steps: Iterator<void, T>, then: (value: T) => void): void {
    const isAbandoned = (): boolean => {
      // A stream does not cancel requests that are still read, so that is done here.
      if (this.call.isEnded) this.cancel()
      return this.call.isEnded
    }
    this.readLater<T>(slicedReading(this.parts.clock, steps, isAbandoned), then)
  }

  /** Reads what is one step at once, and what has more of them in slices. */
  protected readSteps<T>(steps: Iterator<void, T>, then: (value: T) => void): void {
    const first = steps.next()
    if (first.done === true) then(first.value)
    else this.readInSlices(steps, then)
  }

  /** For `prepare`: makes an answer, or what it is written from, in slices, unless the call has ended. */
  protected preparedInSlices<T>(steps: Iterator<void, T>, prepared: (value: T) => InferenceResponse): Preparation {
    const isWanted = (): boolean => !this.call.isEnded
    return (done) =>
      runInSlices(this.parts.clock, steps, isWanted, (error, value) =>
        done(error, value === null ? null : prepared(value)),
      )
  }

  protected override get uncountedBytes(): number {
    return this.received.length
  }

  protected override get memory(): HeldMemory {
    return this.call.memoryOf(this.received)
  }

  protected override get receivedBody(): Buffer {
    return this.received
  }

  protected override get deadlineNs(): number {
    return this.call.deadlineNs ?? 0
  }

  protected get arrivalNames(): ArrivalNames {
    return arrivalNames
  }

  protected override started(request: InferenceRequest): void {
    this.call.noteInference?.(request, this.version.version)
  }

  protected override replaced(request: InferenceRequest): void {
    this.call.noteInference?.(request, this.version.version)
  }
}
