import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configWith, settingOf } from './setting.ts'

const config = {
  max_batch_size: 8,
  dynamic_batching: { preferred_batch_size: [4], max_queue_delay_microseconds: 100, preserve_ordering: true },
  instance_group: [{ kind: 'KIND_CPU', count: 2 }],
  response_cache: { enable: true },
}

test('measured as it is, a model keeps all it has but its cache', () => {
  const { response_cache: _cache, ...rest } = config
  assert.deepEqual(configWith(config, settingOf(config)), rest)
})

test('preferred sizes go with the delay or the size they were chosen for, the rest of the batcher stays', () => {
  const other = configWith(config, { ...settingOf(config), delayUs: 500 })
  assert.deepEqual(other['dynamic_batching'], {
    preferred_batch_size: [],
    max_queue_delay_microseconds: 500,
    preserve_ordering: true,
  })
  const more = configWith(config, { ...settingOf(config), instances: 3 })
  assert.deepEqual(more['dynamic_batching'], config.dynamic_batching)
})
