// What a host asks of the server besides its answers: metrics and lines of the log. A backend asks for them before a model is there, and
// its metrics belong to the whole host.

import type { Log } from '../../base/log.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { fromWorker } from '../worker-process/frames.ts'
import { writeLogFrame } from '../worker-process/log-frame.ts'
import { ServiceCalls } from '../worker-process/service-calls.ts'

export class HostServices {
  readonly #log: Log
  readonly #services: ModelServices
  readonly #metrics = new Set<number>()

  constructor(log: Log, services: ModelServices) {
    this.#log = log
    this.#services = services
  }

  /** For one channel: true for a frame that was for the server itself. */
  serving(send: (frame: Buffer) => void): (frame: Buffer) => boolean {
    const calls = new ServiceCalls(this.#services, null, send, () => undefined, this.#metrics)
    return (frame) => {
      const kind = frame.readUInt16LE(4)
      if (kind === fromWorker.call) calls.answer(frame)
      else if (kind === fromWorker.metric) calls.metric(frame)
      else if (kind === fromWorker.log) writeLogFrame(this.#log, frame)
      else return false
      return true
    }
  }

  /** The host is gone, and its metrics with it. */
  close(): void {
    for (const metric of this.#metrics) this.#services.metrics.remove(metric)
    this.#metrics.clear()
  }
}
