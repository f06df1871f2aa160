// Connects the methods of front ends with a gRPC transport: finds the method of a call and admits the caller.

import type { Action } from '../../access/action.ts'
import type { Admission, Verdict } from '../../access/admission.ts'
import type { AdmissionFacts, ClientCertificate } from '../../access/admission-facts.ts'
import type { Refusal, RefusalReason } from '../../access/refusal.ts'
import type { ApiName } from '../../access/api-name.ts'
import { anonymous, type Caller } from '../../access/caller.ts'
import type { AccessLog } from '../../base/access-log.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf } from '../../base/server-error.ts'
import type { ClientMemory } from '../../transport/client-memory.ts'
import type { ConnectionSlots } from '../../transport/connection-slots.ts'
import { GrpcStatus, statusCodes, type StatusCode } from '../../transport/grpc/grpc-status.ts'
import { metadataValue, type GrpcCall, type GrpcTransport } from '../../transport/grpc/grpc-transport.ts'
import { Http2Transport } from '../../transport/grpc/http2-transport.ts'
import type { TrafficMeter } from '../../transport/traffic-meter.ts'
import { validateGrpcOptions, type GrpcOptions } from './grpc-options.ts'
import type { GrpcFrontEnd, GrpcMethod } from './grpc-method.ts'
import { StandingCalls } from '../standing-calls.ts'
import { LoggedCall } from './logged-call.ts'
import type { PortCall } from './port-call.ts'

export type GrpcPortDependencies = {
  readonly log: Log
  readonly clock: Clock
  /** Null: everybody is admitted. */
  readonly admission: Admission | null
  /** What is held for the clients of all ports; without one the port has a budget of its own. */
  readonly clientMemory?: ClientMemory
  /** Left out: as many connections as the system gives. */
  readonly connectionSlots?: ConnectionSlots
  /** Left out: no access log is written. */
  readonly accessLog?: AccessLog
  /** Where HTTP is served, for clients that mistake this port for that one. */
  readonly otherPort?: () => number | null
}

const drainingStatus = new GrpcStatus(
  statusCodes.UNAVAILABLE,
  'GRPC server is shutting down and has stopped accepting new requests.',
)
const unimplemented = new GrpcStatus(statusCodes.UNIMPLEMENTED, '')

export class GrpcPort {
  readonly #transport: GrpcTransport
  readonly #frontEnds: readonly GrpcFrontEnd[]
  #methods: ReadonlyMap<string, GrpcMethod>
  readonly #accessLog: AccessLog | null
  readonly #admission: Admission | null
  readonly #log: Log
  readonly #clock: Clock
  /** Null: nobody is asked who calls. */
  readonly #standing: StandingCalls | null
  #isDraining = false

  /** Throws ServerError when an option makes no sense; opens no port before `listen`. */
  constructor(dependencies: GrpcPortDependencies, options: GrpcOptions, frontEnds: readonly GrpcFrontEnd[]) {
    validateGrpcOptions(options)
    const { clock, log, accessLog = null } = dependencies
    this.#accessLog = accessLog
    this.#admission = dependencies.admission
    this.#standing = this.#admission === null ? null : new StandingCalls(clock, this.#admission)
    this.#log = log.from('grpc-port.ts')
    this.#clock = clock
    this.#frontEnds = frontEnds
    this.#methods = new Map(frontEnds.flatMap(({ methods }) => methods.map((method) => [method.path, method])))
    this.#transport = new Http2Transport(dependencies, options, (call) => this.#handle(call))
  }

  /** The address and the real port, also when the option was port 0. */
  async listen(): Promise<{ address: string; port: number }> {
    return this.#transport.listen()
  }

  /** Counts the bytes of all connections. */
  get traffic(): TrafficMeter {
    return this.#transport.traffic
  }

  /** Until the result is called, only questions about health are answered; all else gets `refuse`. */
  hold(refuse: (caller: Caller) => GrpcStatus): () => void {
    const open = this.#methods
    const begin: GrpcMethod['begin'] = (call, caller) => call.finish(refuse(caller))
    const held = [...open].map(([path, method]): [string, GrpcMethod] => [
      path,
      method.api === 'health' ? method : { ...method, begin },
    ])
    this.#methods = new Map(held)
    return () => void (this.#methods = open)
  }

  /** Refuses new calls, answers the calls in flight and then closes each connection; resolves when all are closed. */
  async drain(): Promise<void> {
    this.#beginDrain()
    await this.#transport.drain()
  }

  /** Ends every connection at once. Twice is fine. */
  async close(): Promise<void> {
    this.#beginDrain()
    this.#standing?.close()
    await this.#transport.close()
  }

  #beginDrain(): void {
    this.#isDraining = true
    for (const frontEnd of this.#frontEnds) frontEnd.drain?.(drainingStatus)
  }

  /** HOT: once per call. */
  #handle(arrived: GrpcCall): void {
    const call = this.#accessLog === null ? arrived : new LoggedCall(arrived, this.#accessLog, this.#clock)
    const method = this.#methods.get(call.path)
    if (method === undefined) call.finish(unimplemented)
    else if (this.#admission === null) this.#begin(call, method, anonymous)
    else this.#admit(this.#admission, call, method)
  }

  /** No message of the call is read before the verdict. */
  #admit(admission: Admission, call: PortCall, method: GrpcMethod): void {
    const failed = (reason: unknown): void => {
      this.#log.error('admission failed', { path: call.path, reason: messageOf(reason) })
      call.finish(new GrpcStatus(statusCodes.INTERNAL, 'the server could not find out who calls'))
    }
    try {
      const verdict = admission.admit(new GrpcCallFacts(method, call))
      if (!(verdict instanceof Promise)) {
        this.#begin(call, method, verdict)
        return
      }
      call.setPaused(true)
      verdict
        .then((known) => {
          this.#begin(call, method, known)
          call.setPaused(false)
        })
        .catch(failed)
    } catch (reason) {
      failed(reason)
    }
  }

  #begin(call: PortCall, method: GrpcMethod, verdict: Verdict): void {
    if (verdict.kind === 'refused') call.finish(refusalStatus(verdict))
    else if (this.#isDraining) call.finish(drainingStatus)
    else if (!call.isEnded) {
      call.noteCaller?.(verdict)
      method.begin(call, verdict)
      if (method.lasts === true) this.#stand(call, method)
    }
  }

  #stand(call: PortCall, method: GrpcMethod): void {
    this.#standing?.add({
      facts: new GrpcCallFacts(method, call),
      isOver: () => call.isEnded,
      renewed: (caller) => call.onRenewed?.(caller),
      end: (refusal) => {
        call.finish(refusalStatus(refusal))
        call.onCancel?.()
      },
    })
  }
}

const codeOf: Readonly<Record<RefusalReason, StatusCode>> = {
  unauthenticated: statusCodes.UNAUTHENTICATED,
  // As in Triton.
  restricted: statusCodes.UNAVAILABLE,
  forbidden: statusCodes.PERMISSION_DENIED,
  exhausted: statusCodes.RESOURCE_EXHAUSTED,
}

/** Many calls may be refused for one reason: their Refusal is one object, and so is their status. */
const made = new WeakMap<Refusal, GrpcStatus>()

function refusalStatus(refusal: Refusal): GrpcStatus {
  let status = made.get(refusal)
  if (status === undefined) {
    status = new GrpcStatus(codeOf[refusal.reason], refusal.message, refusal.retryAfterMs)
    made.set(refusal, status)
  }
  return status
}

/** The facts of a gRPC call that are known before its messages. */
class GrpcCallFacts implements AdmissionFacts {
  readonly protocol = 'grpc'
  readonly api: ApiName
  readonly action: Action
  /** The first message names the model: the method compares it with the rights of the caller. */
  readonly model = ''
  readonly isForAll = false
  readonly isOfConsole = false
  readonly isForSelf = false
  readonly bodyBytes = 0
  readonly isStream: boolean
  readonly #call: PortCall

  constructor({ api, action, isStream }: GrpcMethod, call: PortCall) {
    this.api = api
    this.action = action ?? api
    this.isStream = isStream === true
    this.#call = call
  }

  get head(): object {
    return this.#call.metadata
  }

  get path(): string {
    return this.#call.path
  }
  get peer(): string {
    return this.#call.remoteAddress
  }
  header(name: string): string | null {
    return metadataValue(this.#call.metadata, name)
  }
  certificate(): ClientCertificate | null {
    return this.#call.peerCertificate?.() ?? null
  }
}
