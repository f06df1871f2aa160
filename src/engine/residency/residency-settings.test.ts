import assert from 'node:assert/strict'
import test from 'node:test'
import { parseModelConfigText } from '../../repository/text-format-reader.ts'
import { planEviction } from './plan-eviction.ts'
import { residencyOf } from './residency-settings.ts'

const defaults = { isLazy: false, idleUnloadSecs: 0 }
const configWith = (parameters: Record<string, string>) =>
  parseModelConfigText(
    `name: "m" ${Object.entries(parameters)
      .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`)
      .join(' ')}`,
  ).config

test('a model’s parameters go before the server’s defaults', () => {
  const busy = { isLazy: true, idleUnloadSecs: 60 }
  assert.deepEqual(residencyOf(configWith({}), busy), {
    isLazy: true,
    isKeptWarm: false,
    idleUnloadNs: 60e9,
    declaredBytes: null,
    declaredGpuBytes: null,
  })
  const own = {
    lazy: 'false',
    keep_warm: 'true',
    idle_unload_secs: '0.5',
    memory_bytes: '1.5 GiB',
    gpu_memory_bytes: '1 GiB',
  }
  assert.deepEqual(residencyOf(configWith(own), busy), {
    isLazy: false,
    isKeptWarm: true,
    idleUnloadNs: 5e8,
    declaredBytes: 1.5 * 1024 ** 3,
    declaredGpuBytes: 1024 ** 3,
  })
})

test('a value that cannot be read is refused by its name', () => {
  for (const [key, value] of Object.entries({
    lazy: 'yes',
    keep_warm: '1',
    idle_unload_secs: '-1',
    memory_bytes: '10 MB of RAM',
  })) {
    assert.throws(() => residencyOf(configWith({ [key]: value }), defaults), {
      code: 'INVALID_ARG',
      message: new RegExp(`^parameter '${key}' of model 'm' must be .*, got '${value}'$`),
    })
  }
})

test('those used longest ago go first, and no more than it takes', () => {
  const idle = [
    { key: 'new', bytes: 10, lastUsedNs: 3 },
    { key: 'old', bytes: 10, lastUsedNs: 1 },
    { key: 'empty', bytes: 0, lastUsedNs: 0 },
    { key: 'middle', bytes: 10, lastUsedNs: 2 },
  ]
  assert.deepEqual(planEviction(idle, 15), ['old', 'middle'])
  assert.deepEqual(planEviction(idle, 10), ['old'])
  assert.deepEqual(planEviction(idle, 0), [])
  assert.equal(planEviction(idle, 31), null)
})
