import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anonymous } from '../access/caller.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { HeldMemory } from './held-memory.ts'
import { InferenceExchange, type ExchangeParts } from './inference-exchange.ts'

/** A request whose input is made in a later turn, for which the client sent nothing that could be counted. */
class SlowlyReadExchange extends InferenceExchange {
  readonly protocol = 'http'
  readonly path = ''
  readonly peer = ''
  protected readonly arrivalNames = ['START', 'END'] as const
  readonly errors: string[] = []
  heldBytes = 0
  finishReading: (input: Tensor) => void = () => undefined

  constructor(parts: ExchangeParts) {
    super(parts, anonymous, true)
  }
  header(): null {
    return null
  }
  protected override get memory(): HeldMemory {
    return {
      reserve: (bytes) => (this.heldBytes += bytes) <= 1000,
      release: (bytes) => (this.heldBytes -= bytes),
      refuse: () => 'no room',
      reuse: () => undefined,
    }
  }
  protected override read(): void {
    // While the input is made there is more than it.
    this.reserve(700)
    this.readLater<Tensor>(
      (done) => {
        this.finishReading = (input) => done(null, input)
        return { cancel: () => undefined }
      },
      (input) => this.submit({ inputs: [input] }),
    )
  }
  protected override write(): void {
    this.errors.push('an answer')
  }
  protected override fail({ message }: Error): void {
    this.errors.push(message)
  }
  protected override refused({ message }: Error): void {
    this.errors.push(message)
  }
}

test('what was counted while a request was read counts no more beside the input that came of it', () => {
  const version = { name: 'm', door: null, config: { maxBatchSize: 0 } } as ModelVersion
  let inferred = 0
  const engine = {
    choose: () => version,
    isTracing: false,
    isTurningAway: false,
    expectRequest: () => () => undefined,
    infer: () => inferred++,
    wording: { tell: (reason: unknown) => reason },
    refusals: { count: () => undefined },
  }
  const exchange = new SlowlyReadExchange({ engine, sharedMemory: {} } as unknown as ExchangeParts)
  exchange.begin('m', '')
  assert.equal(exchange.heldBytes, 700)
  exchange.finishReading(new Tensor('x', 'UINT8', [400], new Uint8Array(400)))
  assert.deepEqual([exchange.errors, inferred, exchange.heldBytes], [[], 1, 400])
})
