import assert from 'node:assert/strict'
import type { Instance, Prepare } from '../src/model/backend.ts'
import type { Batch } from '../src/model/batch.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'

/** Executes when told to; keeps what it was given. */
export class HeldInstance implements Instance {
  readonly name: string
  isReady = true
  prefetchDepth = 0
  batch: Batch | null = null
  /** The ids of each batch, in the order in which they began, of all instances that share the list. */
  readonly seen: string[]
  /** Set by tests that want it: gathers ahead of time. */
  prepare?: Prepare | undefined

  constructor(name: string, seen: string[] = []) {
    this.name = name
    this.seen = seen
  }

  execute(batch: Batch): void {
    assert.equal(this.batch, null, 'one batch at a time')
    this.batch = batch
    this.seen.push(this.heldIds)
  }

  get heldIds(): string {
    return this.batch?.requests.map(({ id }) => id).join('+') ?? ''
  }

  finish(): void {
    const batch = this.batch as Batch
    this.batch = null
    for (const request of batch.requests) request.respond(InferenceResponse.of([]))
    batch.executed()
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
