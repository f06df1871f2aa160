// Runs the requests to an ensemble: a step starts as soon as its inputs are there. Requests do not wait here; batching
// and queueing happen in the models of the steps.

import type { Clock } from '../base/clock.ts'
import { Drain } from '../base/drain.ts'
import { PlacedSet } from '../base/placed-set.ts'
import type { EnsemblePlan } from '../config/ensemble-plan.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import type { QueueDoor } from '../model/queue-report.ts'
import type { ServerError } from '../base/server-error.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { EnsembleGate } from './ensemble-gate.ts'
import { EnsembleRun, type EnsembleContext } from './ensemble-run.ts'
import { stoppedError } from './refusals.ts'

type EnsembleDependencies = {
  readonly clock: Clock
  /** Runs the request of a step on the model that it names, also while the server drains. Never throws. */
  readonly infer: (request: InferenceRequest) => void
  /** The doors of the models of its steps, as they are now. Absent: nobody asks. */
  readonly doors?: () => Iterable<QueueDoor | null>
}

export class EnsembleScheduler implements Scheduler {
  readonly pendingCount = 0
  /** A request is refused here, and not half way, when a model of a step would refuse it. */
  readonly door: QueueDoor | null
  readonly #context: EnsembleContext
  readonly #runs = new PlacedSet<EnsembleRun>()
  readonly #drain = new Drain(() => this.#runs.size === 0)

  constructor({ clock, infer, doors }: EnsembleDependencies, plan: EnsemblePlan, signature: ModelSignature) {
    const gates = plan.steps.map(() => new EnsembleGate(plan.maxInflightRequests))
    const finished = (run: EnsembleRun): void => {
      this.#runs.delete(run)
      this.#drain.check()
    }
    this.door = doors === undefined ? null : new StepDoors(doors)
    this.#context = { clock, plan, signature, gates, infer, finished }
  }

  enqueue(request: InferenceRequest): void {
    if (this.#drain.isRefusing) {
      request.fail(stoppedError(request))
      return
    }
    if (this.door !== null && !request.isInner && this.door.isShut) {
      request.refusal = 'overload'
      request.fail(this.door.turnAway())
      return
    }
    const run = new EnsembleRun(this.#context, request)
    this.#runs.add(run)
    run.start()
  }

  instancesChanged(): void {
    // An ensemble has no Instances; its steps wait in the queues of their models.
  }

  drain(): Promise<void> {
    return this.#drain.drained()
  }

  close(): void {
    this.#drain.refuse()
    for (const run of this.#runs.members()) run.fail(stoppedError({ errorPrefix: '' }))
  }
}

class StepDoors implements QueueDoor {
  readonly #doors: () => Iterable<QueueDoor | null>

  constructor(doors: () => Iterable<QueueDoor | null>) {
    this.#doors = doors
  }

  get isShut(): boolean {
    return this.#shut() !== null
  }

  turnAway(): ServerError {
    return (this.#shut() as QueueDoor).turnAway()
  }

  /** Until a request comes to a step, others may have left the queue of its model. */
  isFullFor(): boolean {
    return false
  }

  turnAwayFromFull(): ServerError {
    return this.turnAway()
  }

  #shut(): QueueDoor | null {
    for (const door of this.#doors()) if (door !== null && door.isShut) return door
    return null
  }
}
