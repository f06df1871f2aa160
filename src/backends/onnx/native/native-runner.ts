// Runs a session through the C API, for one Instance: one run at a time, on this thread or on a carrier.

import { assert } from '../../../base/assert.ts'
import type { Clock } from '../../../base/clock.ts'
import { ServerError } from '../../../base/server-error.ts'
import type { OnnxRunner, RunRequest, RunResult } from '../onnx-session.ts'
import { CarrierJob, type CarrierPool } from './carrier-pool.ts'
import type { Address, OrtError, OrtLibrary } from './ort-library.ts'
import type { PlanContext } from './plan-slots.ts'
import { RunPlan } from './run-plan.ts'

/** Plans kept for shapes that come again: usually one per batch size. The plan that was unused longest is dropped. */
const maxKeptPlans = 16

type Finished = (result: RunResult) => void

type RunnerParts = {
  readonly library: OrtLibrary
  readonly clock: Clock
  readonly carriers: CarrierPool
  /** The cores of its runs; null: all. */
  readonly mask: BigUint64Array | null
  readonly session: Address
  readonly context: PlanContext
  readonly runEntries: readonly (readonly [key: string, value: string])[]
}

export class NativeRunner implements OnnxRunner {
  readonly #parts: RunnerParts
  /** OrtRunOptions; the runner owns them until `close`. */
  readonly #runOptions: Address
  // An inline run cannot be terminated, so it needs options only when the model configures some.
  readonly #inlineOptions: Address
  #plans: RunPlan[] = []
  /** Closed plans of shapes that came once. When the same shapes come again, their next plan is kept. */
  #seenOnce: RunPlan[] = []
  /** The offloaded run under way; it keeps the memory that native code reads. */
  #job: CarrierJob | null = null
  #isTerminated = false
  #isClosed = false

  constructor(parts: RunnerParts) {
    this.#parts = parts
    const { library, runEntries } = parts
    this.#runOptions = library.made((out) => library.functions.createRunOptions(out))
    this.#inlineOptions = runEntries.length === 0 ? 0 : this.#runOptions
    for (const [key, value] of runEntries) {
      library.check(library.functions.addRunConfigEntry(this.#runOptions, key, value))
    }
  }

  pulse(): Promise<boolean> {
    return this.#parts.carriers.pulse()
  }

  run(request: RunRequest, finished: Finished): void {
    assert(!this.#isClosed && this.#job === null, 'a runner runs one request at a time, until it is closed')
    let plan: RunPlan
    try {
      plan = this.#planFor(request)
      plan.prepare(request.inputs)
    } catch (reason) {
      finished({ error: this.#serverError(reason), isTerminated: false })
      return
    }
    if (request.place === 'inline') this.#runInline(plan, request, finished)
    else this.#runOffloaded(plan, request, finished)
  }

  terminate(): void {
    const job = this.#job
    if (job === null || this.#isTerminated) return
    this.#isTerminated = true
    const { library, carriers } = this.#parts
    if (carriers.withdraw(job)) job.done(null, 0)
    else library.check(library.functions.runOptionsSetTerminate(this.#runOptions))
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#forgetPlans()
    this.#parts.library.functions.releaseRunOptions(this.#runOptions)
  }

  // HOT. bench/onnx-run.bench.ts
  #runInline(plan: RunPlan, request: RunRequest, finished: Finished): void {
    const { library, session } = this.#parts
    const status = library.functions.run(
      session,
      this.#inlineOptions,
      plan.inputNamesAddress,
      plan.inputValuesAddress,
      plan.inputCount,
      plan.outputNamesAddress,
      plan.outputCount,
      plan.outputValuesAddress,
    )
    this.#finish(plan, request, status, null, finished)
  }

  #runOffloaded(plan: RunPlan, request: RunRequest, finished: Finished): void {
    const parameters = [
      this.#parts.session,
      this.#runOptions,
      plan.inputNamesAddress,
      plan.inputValuesAddress,
      plan.inputCount,
      plan.outputNamesAddress,
      plan.outputCount,
      plan.outputValuesAddress,
    ]
    const job = new CarrierJob(
      'run',
      parameters,
      [plan, request],
      (status, elapsedNs) => {
        this.#job = null
        if (status === null) this.#onLost(plan, finished)
        else this.#finish(plan, request, status, elapsedNs, finished)
      },
      this.#parts.mask,
    )
    this.#job = job
    this.#parts.carriers.submit(job)
  }

  #finish(plan: RunPlan, request: RunRequest, status: Address, elapsedNs: number | null, finished: Finished): void {
    const isTerminated = this.#resetTermination()
    if (status === 0) {
      let collected
      try {
        collected = plan.collect()
      } catch (reason) {
        this.#dispose(plan)
        finished({ error: this.#serverError(reason), isTerminated })
        return
      }
      this.#dispose(plan)
      finished({ error: null, outputs: collected.outputs, elapsedNs, release: collected.release })
      return
    }
    const error = this.#parts.library.takeError(status)
    plan.abandon()
    this.#dispose(plan)
    if (plan.hasBoundOutputs && !isTerminated && isShapeSurprise(error) && this.#parts.context.arePredictable) {
      // The model describes its outputs wrongly. No request has an answer yet, so run again with unbound outputs.
      this.#parts.context.arePredictable = false
      this.#forgetPlans()
      this.run(request, finished)
      return
    }
    finished({ error: this.#serverError(error), isTerminated })
  }

  #onLost(plan: RunPlan, finished: Finished): void {
    const isTerminated = this.#resetTermination()
    plan.abandon()
    this.#dispose(plan)
    const message = isTerminated ? 'the run was cancelled before it began' : 'the thread that ran the model was lost'
    finished({ error: ServerError.withoutStack('INTERNAL', message), isTerminated })
  }

  #resetTermination(): boolean {
    if (!this.#isTerminated) return false
    this.#isTerminated = false
    const { library } = this.#parts
    library.check(library.functions.runOptionsUnsetTerminate(this.#runOptions))
    return true
  }

  #planFor({ inputs, outputs }: RunRequest): RunPlan {
    const plans = this.#plans
    for (let i = 0; i < plans.length; i++) {
      const plan = plans[i] as RunPlan
      if (!plan.fits(inputs, outputs)) continue
      if (i > 0) {
        // The plan that was used last comes first.
        plans.copyWithin(1, 0, i)
        plans[0] = plan
      }
      return plan
    }
    const { context } = this.#parts
    const seenAt = this.#seenOnce.findIndex((seen) => seen.fits(inputs, outputs))
    const plan = new RunPlan(context, inputs, outputs, seenAt >= 0)
    if (seenAt < 0) {
      if (this.#seenOnce.length >= maxKeptPlans) this.#seenOnce.shift()
      this.#seenOnce.push(plan)
      return plan
    }
    this.#seenOnce.splice(seenAt, 1)
    if (plans.length >= maxKeptPlans) plans.pop()?.close()
    plans.unshift(plan)
    return plan
  }

  /** Closes a plan that was made for one run. A kept plan stays, unless prediction was turned off meanwhile. */
  #dispose(plan: RunPlan): void {
    if (!plan.isKept) plan.close()
  }

  #forgetPlans(): void {
    for (const plan of this.#plans) plan.close()
    this.#plans = []
    this.#seenOnce = []
  }

  #serverError(reason: unknown): ServerError {
    if (reason instanceof ServerError) return reason
    const code = (reason as Partial<OrtError>).code
    // Triton's text for errors of ONNX Runtime.
    if (typeof code === 'number') {
      return ServerError.withoutStack('INTERNAL', `onnx runtime error ${code}: ${(reason as OrtError).message}`)
    }
    return ServerError.from(reason)
  }
}

export const isShapeSurprise = (error: OrtError): boolean =>
  /shape verification failed|pre-allocated/i.test(error.message)
