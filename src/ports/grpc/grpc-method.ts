import type { Action } from '../../access/action.ts'
import type { ApiName } from '../../access/api-name.ts'
import type { Caller } from '../../access/caller.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { turnBudget } from '../../base/turn-budget.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { noCall, type ErrorWording } from '../../model/error-wording.ts'
import type { RefusalCounts } from '../../model/refusal-counts.ts'
import {
  decodeMessage,
  encodeMessage,
  type MessageCodec,
  type MessageValue,
} from '../../protocol/grpc/message-codec.ts'
import type { WireFile } from '../../protocol/grpc/wire-schema.ts'
import { GrpcStatus, statusCodes } from '../../transport/grpc/grpc-status.ts'
import type { PortCall } from './port-call.ts'

/** One method of a gRPC service. */
export type GrpcMethod = {
  /** `/package.Service/Method` */
  readonly path: string
  readonly api: ApiName
  /** What a caller needs the right to; left out: `api`. */
  readonly action?: Action
  /** True: each message is a request, as in a stream of inferences. */
  readonly isStream?: boolean
  /** True: the call ends when the client likes, and it is asked again who calls while it lasts. */
  readonly lasts?: boolean
  /** Called when the headers of the call have arrived, before its messages. */
  begin(call: PortCall, caller: Caller): void
}

/** The methods that a front end gives to the gRPC port. */
export type GrpcFrontEnd = {
  readonly methods: readonly GrpcMethod[]
  /** The .proto files of its services, for reflection; left out: they are among those that every server has. */
  readonly files?: readonly WireFile[]
  /** Ends calls that would not end by themselves, as streams, once their answers are sent. */
  drain?(status: GrpcStatus): void
}

export type UnaryMethod = (
  request: MessageValue,
  call: PortCall,
  caller: Caller,
) => MessageValue | Promise<MessageValue>

/** Takes the first message of a call. A call without a message is refused. */
export function takeOne(call: PortCall, log: Log, take: (message: Buffer) => void): void {
  call.expectMessage()
  call.onMessage = (message) => {
    call.onMessage = null
    call.onHalfClose = null
    try {
      take(message)
    } catch (reason) {
      // No method should throw. If one does, its call still gets an answer and the server goes on.
      log.error('gRPC method failed', { path: call.path, reason: messageOf(reason) })
      call.finish(new GrpcStatus(statusCodes.INTERNAL, 'internal error of the gRPC front end'))
    }
  }
  call.onHalfClose = () => call.finish(new GrpcStatus(statusCodes.INTERNAL, 'the call brought no message'))
}

type InferenceParts = {
  readonly log: Log
  readonly engine: { readonly wording: ErrorWording; readonly refusals: RefusalCounts }
}

/** A method with one message, which is an inference. `begin` throws ServerError for a message that cannot be read: its call is refused. */
export function inferenceMethod(
  { log, engine }: InferenceParts,
  path: string,
  begin: (message: Buffer, call: PortCall, caller: Caller) => void,
  statusOf: (error: ServerError) => GrpcStatus = (error) => GrpcStatus.of(error),
): GrpcMethod {
  // HOT: once per inference.
  const take = (message: Buffer, call: PortCall, caller: Caller): void => {
    try {
      begin(message, call, caller)
    } catch (reason) {
      // What is no ServerError is a fault of ours: it is logged, and no client is told of it.
      if (!(reason instanceof ServerError)) throw reason
      const error = engine.wording.tell(reason)
      engine.refusals.count(error)
      call.finish(statusOf(error))
    }
  }
  return {
    path,
    api: 'inference',
    begin: (call, caller) => {
      call.allowCompression()
      call.allowLargeMessages()
      takeOne(call, log, (message) => take(message, call, caller))
    },
  }
}

type UnaryCodec = MessageCodec & {
  /** How the protocol tells an error; left out: as v2 does. */
  readonly statusOf?: (reason: unknown) => GrpcStatus
}

const v2Codec: UnaryCodec = { decode: decodeMessage, encode: encodeMessage }

type UnaryParts = {
  readonly log: Log
  readonly clock: Clock
  readonly engine: { readonly wording: ErrorWording }
}

/** A method with one message in and one message out, both encoded with the tables of the protocol. */
export function unaryMethod(
  { log, clock, engine }: UnaryParts,
  path: string,
  api: ApiName,
  [requestType, responseType]: readonly [string, string],
  method: UnaryMethod,
  takesLargeMessages = false,
  codec = v2Codec,
): GrpcMethod {
  const answer = async (call: PortCall, caller: Caller, message: Buffer): Promise<void> => {
    try {
      // Calls that come at once are begun one after the other, before any of them goes on behind an `await`.
      const startNs = clock.nowNs()
      const answering = method(codec.decode(requestType, message), call, caller)
      turnBudget.spendNs(clock.nowNs() - startNs)
      const response = codec.encode(responseType, await answering)
      call.sendLast({ parts: [response], byteLength: response.length }, null)
    } catch (reason) {
      call.finish(codec.statusOf?.(reason) ?? GrpcStatus.of(engine.wording.tell(reason, { ...noCall, caller })))
    }
  }
  const begin: GrpcMethod['begin'] = (call, caller) => {
    if (takesLargeMessages) call.allowLargeMessages()
    takeOne(call, log, (message) => void answer(call, caller, message))
  }
  return { path, api, begin }
}

/** A call that takes messages until the client ends it, or until it is drained. */
type OpenStream = { drain(status: GrpcStatus): void }

/** A method each message of which is an inference. `drain` ends its streams once their answers are sent. */
export function streamMethod(
  path: string,
  open: (call: PortCall, caller: Caller) => OpenStream,
): { readonly method: GrpcMethod; readonly drain: (status: GrpcStatus) => void } {
  const streams = new Set<OpenStream>()
  const begin: GrpcMethod['begin'] = (call, caller) => {
    call.allowLargeMessages()
    const stream = open(call, caller)
    streams.add(stream)
    call.onClosed = () => streams.delete(stream)
  }
  const drain = (status: GrpcStatus): void => {
    for (const stream of streams) stream.drain(status)
  }
  return { method: { path, api: 'inference', isStream: true, lasts: true, begin }, drain }
}
