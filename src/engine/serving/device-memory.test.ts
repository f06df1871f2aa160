import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModelConfig } from '../../config/model-config.ts'
import type { Instance } from '../../model/backend.ts'
import { deviceMemoryOf } from './device-memory.ts'

const instance = (traits: Partial<Instance>): Instance => ({
  name: 'i',
  isReady: true,
  execute: () => undefined,
  close: () => Promise.resolve(),
  ...traits,
})

test('outputs may lie on the GPU of all instances, and inputs where every instance takes them there', () => {
  const of = (...instances: Partial<Instance>[]): unknown => deviceMemoryOf(emptyModelConfig(), instances.map(instance))
  assert.deepEqual(of({ deviceId: 1 }, { deviceId: 1 }), { deviceId: 1, hasInputs: true })
  assert.deepEqual(of({ deviceId: 1 }, { deviceId: 1, hasHostInputs: true }), { deviceId: 1, hasInputs: false })
  assert.equal(of({ deviceId: 0 }, { deviceId: 1 }), null)
  assert.equal(of({}), null)
  assert.equal(of(), null)
})
