import assert from 'node:assert/strict'
import { SystemClock, type Clock } from '../../src/base/clock.ts'
import type { ServerError } from '../../src/base/server-error.ts'
import type { Instance, Prepare } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const systemClock = new SystemClock()

/** Gives the inputs back as outputs: IN as OUT, INPUT0 as OUTPUT0. */
export function answerWithCopy(request: InferenceRequest): void {
  answerWanted(
    request,
    request.inputs.map(
      ({ name, dataType, shape, bytes }) => new Tensor(name.replace('IN', 'OUT'), dataType, shape, bytes),
    ),
  )
}

/** Only what the request asks for. */
export function answerWanted(request: InferenceRequest, outputs: Tensor[]): void {
  const wanted = request.requestedOutputs
  request.respond(
    InferenceResponse.of(wanted.length === 0 ? outputs : outputs.filter(({ name }) => wanted.includes(name))),
  )
}

/** Executes when told to, or at once; keeps what it was given. Keeps the contract of an Instance. */
export class HeldInstance implements Instance {
  readonly name: string
  isReady = true
  isLost = false
  prefetchDepth = 0
  /** Set to false: each batch is answered before `execute` returns. */
  isHolding = true
  /** The first executes, the others are parked. */
  readonly batches: Batch[] = []
  /** What `describe` says of each batch, in the order in which they began, of all instances that share the list. */
  readonly seen: string[]
  /** What a request gets. */
  answer: (request: InferenceRequest) => void = answerWithCopy
  /** Set by tests that want it: gathers ahead of time. */
  prepare?: Prepare | undefined
  /** Set by tests that want it. */
  burden?: Instance['burden']
  clock: Clock = systemClock

  constructor(name: string, seen: string[] = []) {
    this.name = name
    this.seen = seen
  }

  execute(batch: Batch): void {
    assert.ok(this.batches.length === 0 || this.batches.length <= this.prefetchDepth, 'no more batches than it takes')
    this.batches.push(batch)
    this.seen.push(this.describe(batch))
    for (const request of batch.requests) request.computeStartNs = request.computeInputEndNs = this.clock.nowNs()
    if (!this.isHolding) this.finish()
  }

  get batch(): Batch | null {
    return this.batches[0] ?? null
  }

  get isBusy(): boolean {
    return this.batches.length > 0
  }

  describe(batch: Batch): string {
    return batch.requests.map(({ id }) => id).join('+')
  }

  get heldIds(): string {
    return this.batch?.requests.map(({ id }) => id).join('+') ?? ''
  }

  /** The first batch is done. */
  finish(error: ServerError | null = null): void {
    const batch = this.batches.shift() as Batch
    for (const request of batch.requests) {
      request.computeOutputStartNs = request.computeEndNs = this.clock.nowNs()
      if (error === null) this.answer(request)
      else request.fail(error)
    }
    batch.executed()
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
