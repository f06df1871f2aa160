// grpc.health.v1.Health/Watch: sends the status at once, and again at every change.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Engine } from '../../engine/engine.ts'
import { encodeMessage } from '../../protocol/grpc/message-codec.ts'
import type { GrpcStatus } from '../../transport/grpc/grpc-status.ts'
import type { GrpcCall } from '../../transport/grpc/grpc-transport.ts'

/** Readiness has many causes and no event, so it is polled at this interval while a client watches. */
const lookEveryNs = 0.5e9

export const healthStatus = (engine: Engine): 'SERVING' | 'NOT_SERVING' => (engine.isReady ? 'SERVING' : 'NOT_SERVING')

export class HealthWatch {
  readonly #engine: Engine
  readonly #clock: Clock
  readonly #watchers = new Map<GrpcCall, string>()
  #disarm: Cancel | null = null

  constructor(engine: Engine, clock: Clock) {
    this.#engine = engine
    this.#clock = clock
  }

  watch(call: GrpcCall): void {
    call.onCancel = () => this.#leave(call)
    this.#watchers.set(call, '')
    this.#look()
    this.#arm()
  }

  /** Sends the last status to every watcher and ends the calls. */
  drain(status: GrpcStatus): void {
    this.#look()
    for (const call of this.#watchers.keys()) {
      call.finish(status)
      this.#leave(call)
    }
  }

  #look(): void {
    const status = healthStatus(this.#engine)
    for (const [call, known] of this.#watchers) {
      if (known === status) continue
      this.#watchers.set(call, status)
      const message = encodeMessage('HealthCheckResponse', { status })
      call.send({ parts: [message], byteLength: message.length }, null)
    }
  }

  #arm(): void {
    this.#disarm ??= this.#clock.after(lookEveryNs, () => {
      this.#disarm = null
      if (this.#watchers.size === 0) return
      this.#look()
      this.#arm()
    })
  }

  #leave(call: GrpcCall): void {
    this.#watchers.delete(call)
    if (this.#watchers.size > 0) return
    this.#disarm?.()
    this.#disarm = null
  }
}
