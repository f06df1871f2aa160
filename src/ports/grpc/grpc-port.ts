// The gRPC front end: finds the method of a call, guards restricted protocols, and ties methods to a transport.

import type { AccessLog } from '../../base/access-log.ts'
import type { Clock } from '../../base/clock.ts'
import type { LogControl } from '../../base/log-control.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { TrafficMeter } from '../../transport/traffic-meter.ts'
import type { Engine } from '../../engine/engine.ts'
import type { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import { decodeMessage, encodeMessage } from '../../protocol/grpc/message-codec.ts'
import { validateGrpcOptions, type GrpcOptions } from './grpc-options.ts'
import { GrpcStatus, statusCodes } from '../../transport/grpc/grpc-status.ts'
import type { GrpcCall, GrpcTransport } from '../../transport/grpc/grpc-transport.ts'
import { healthStatus, HealthWatch } from '../../frontends/v2-grpc/health-watch.ts'
import { Http2Transport } from '../../transport/grpc/http2-transport.ts'
import { InferenceContext } from '../../frontends/v2-grpc/inference-preparation.ts'
import { LoggedCall } from './logged-call.ts'
import { handleModelInfer } from '../../frontends/v2-grpc/model-infer.ts'
import { InferStream } from '../../frontends/v2-grpc/model-stream-infer.ts'
import type { ApiName } from '../../access/api-name.ts'
import { RestrictedProtocolGuard } from './restricted-protocol-guard.ts'
import { serviceMethods, type UnaryMethod } from '../../frontends/v2-grpc/service-methods.ts'

export type GrpcDependencies = {
  readonly engine: Engine
  readonly log: Log
  readonly clock: Clock
  /** What LogSettings shows and changes. */
  readonly logControl?: LogControl
  readonly sharedMemory?: SharedMemoryRegistry
  /** Without one nothing is written about single calls. */
  readonly accessLog?: AccessLog
}

/** Throws ServerError when an option makes no sense; opens no port before `listen`. */
export function createGrpcFrontend(dependencies: GrpcDependencies, options: GrpcOptions): GrpcFrontend {
  validateGrpcOptions(options)
  return new GrpcFrontend(dependencies, options)
}

type Route = { readonly protocol: ApiName; readonly begin: (call: GrpcCall) => void }

const drainingStatus = new GrpcStatus(
  statusCodes.UNAVAILABLE,
  'GRPC server is shutting down and has stopped accepting new requests.',
)
const unimplemented = new GrpcStatus(statusCodes.UNIMPLEMENTED, '')

export class GrpcFrontend {
  readonly #log: Log
  readonly #guard: RestrictedProtocolGuard
  readonly #transport: GrpcTransport
  readonly #context: InferenceContext
  readonly #routes = new Map<string, Route>()
  readonly #watch: HealthWatch
  readonly #streams = new Set<InferStream>()
  readonly #reflections = new Set<GrpcCall>()
  readonly #accessLog: AccessLog | null
  readonly #clock: Clock
  #isDraining = false

  constructor(dependencies: GrpcDependencies, options: GrpcOptions) {
    const { engine, clock, log } = dependencies
    const { logControl = null, sharedMemory = null } = dependencies
    this.#log = log.from('grpc-frontend.ts')
    this.#accessLog = dependencies.accessLog ?? null
    this.#clock = clock
    this.#guard = new RestrictedProtocolGuard(options.restrictedProtocols)
    this.#context = new InferenceContext({ engine, clock, sharedMemory }, options)
    this.#watch = new HealthWatch(engine, clock)
    this.#transport = new Http2Transport({ clock, log }, options, (call) => this.#handle(call))
    const repositoryKey = this.#guard.keyOf('model-repository')
    for (const [rpc, protocol, method] of serviceMethods({ engine, log, logControl, sharedMemory, repositoryKey })) {
      const begin = this.#unary(`${rpc}Request`, `${rpc}Response`, method)
      this.#routes.set(`/inference.GRPCInferenceService/${rpc}`, { protocol, begin })
    }
    this.#addInference()
    this.#addHealth(engine)
    this.#addReflection()
  }

  /** Where it listens, with the real port when 0 was asked for. */
  async listen(): Promise<{ address: string; port: number }> {
    return this.#transport.listen()
  }

  /** Bytes that went over its connections. */
  get traffic(): TrafficMeter {
    return this.#transport.traffic
  }

  /** Refuses new work, answers what is in flight and closes each connection after it; resolves when all are. */
  async drain(): Promise<void> {
    this.#isDraining = true
    for (const stream of this.#streams) stream.drain(drainingStatus)
    this.#watch.drain(drainingStatus)
    for (const call of this.#reflections) call.finish(drainingStatus)
    await this.#transport.drain()
  }

  /** Ends every connection at once. Twice is fine. */
  async close(): Promise<void> {
    this.#isDraining = true
    this.#watch.drain(drainingStatus)
    await this.#transport.close()
  }

  /** HOT: once per call. */
  #handle(arrived: GrpcCall): void {
    const call = this.#accessLog === null ? arrived : new LoggedCall(arrived, this.#accessLog, this.#clock)
    const route = this.#routes.get(call.path)
    if (route === undefined) {
      call.finish(unimplemented)
      return
    }
    const missing = this.#guard.missingMetadata(route.protocol, call.metadata)
    if (missing !== null) {
      const message = `This protocol is restricted, expecting header '${missing}'`
      call.finish(new GrpcStatus(statusCodes.UNAVAILABLE, message))
    } else if (this.#isDraining) call.finish(drainingStatus)
    else route.begin(call)
  }

  #addInference(): void {
    const protocol: ApiName = 'inference'
    const context = this.#context
    this.#routes.set('/inference.GRPCInferenceService/ModelInfer', {
      protocol,
      begin: (call) => {
        call.allowCompression()
        this.#takeOne(call, (message) => handleModelInfer(context, call, message))
      },
    })
    this.#routes.set('/inference.GRPCInferenceService/ModelStreamInfer', {
      protocol,
      begin: (call) => {
        call.allowCompression()
        const stream = new InferStream(context, call)
        this.#streams.add(stream)
        call.onClosed = () => this.#streams.delete(stream)
      },
    })
  }

  #addHealth(engine: Engine): void {
    const check = this.#unary('HealthCheckRequest', 'HealthCheckResponse', () => ({ status: healthStatus(engine) }))
    this.#routes.set('/grpc.health.v1.Health/Check', { protocol: 'health', begin: check })
    this.#routes.set('/grpc.health.v1.Health/Watch', {
      protocol: 'health',
      begin: (call) => this.#takeOne(call, () => this.#watch.watch(call)),
    })
  }

  #addReflection(): void {
    for (const version of ['v1', 'v1alpha']) {
      this.#routes.set(`/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`, {
        protocol: 'metadata',
        begin: (call) => this.#reflect(call),
      })
    }
  }

  #reflect(call: GrpcCall): void {
    this.#reflections.add(call)
    call.onClosed = () => this.#reflections.delete(call)
    let isHalfClosed = false
    let pending = 0
    const endIfDone = (): void => {
      if (isHalfClosed && pending === 0) call.finish(new GrpcStatus(statusCodes.OK, ''))
    }
    call.onHalfClose = () => {
      isHalfClosed = true
      endIfDone()
    }
    call.onMessage = (message) => {
      pending++
      import('./reflection.ts')
        .then(({ answerReflection }) => {
          const answer = answerReflection(message)
          call.send({ parts: [answer], byteLength: answer.length }, null)
          pending--
          endIfDone()
        })
        .catch((reason: unknown) => call.finish(GrpcStatus.of(ServerError.from(reason))))
    }
  }

  /** The first message of a call that has one; a call without any is refused. */
  #takeOne(call: GrpcCall, take: (message: Buffer) => void): void {
    call.onMessage = (message) => {
      call.onMessage = null
      call.onHalfClose = null
      try {
        take(message)
      } catch (reason) {
        // No method throws. Should one, its call still gets an answer and the server goes on.
        this.#log.error('gRPC method failed', { path: call.path, reason: messageOf(reason) })
        call.finish(new GrpcStatus(statusCodes.INTERNAL, 'internal error of the gRPC front end'))
      }
    }
    call.onHalfClose = () => call.finish(new GrpcStatus(statusCodes.INTERNAL, 'the call brought no message'))
  }

  #unary(requestType: string, responseType: string, method: UnaryMethod): (call: GrpcCall) => void {
    const answer = async (call: GrpcCall, message: Buffer): Promise<void> => {
      try {
        const response = encodeMessage(responseType, await method(decodeMessage(requestType, message), call))
        call.sendLast({ parts: [response], byteLength: response.length }, null)
      } catch (reason) {
        call.finish(GrpcStatus.of(ServerError.from(reason)))
      }
    }
    return (call) => this.#takeOne(call, (message) => void answer(call, message))
  }
}
