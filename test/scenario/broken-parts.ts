import type { Clock } from '../../src/base/clock.ts'
import type { Instance } from '../../src/model/backend.ts'
import { Batch } from '../../src/model/batch.ts'

/** Broken on purpose: counts as free as soon as it has begun, and again when it is done. */
export const freeTooSoon = (instance: Instance): Instance => ({
  name: instance.name,
  get isReady() {
    return instance.isReady
  },
  execute: (batch) => {
    instance.execute(new Batch(batch.requests, batch.batchSize, () => undefined))
    batch.executed()
  },
  close: () => instance.close(),
})

/** Broken on purpose: never wakes anybody. */
export const deafClock = (clock: Clock): Clock => ({
  nowNs: () => clock.nowNs(),
  wallMs: () => clock.wallMs(),
  after: (waitNs, fire) => clock.after(waitNs, fire),
  afterExactly: () => () => undefined,
})
