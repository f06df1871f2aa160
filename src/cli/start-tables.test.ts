import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'
import { modelRows } from './model-rows.ts'
import { optionRows } from './start-tables.ts'
import { textTable } from './text-table.ts'

describe('a text table', () => {
  test('has columns as wide as their widest cell', () => {
    assert.equal(
      textTable(['Model', 'Version'], [['add_sub', '1']]),
      '+---------+---------+\n| Model   | Version |\n+---------+---------+\n| add_sub | 1       |\n+---------+---------+\n',
    )
  })

  test('without rows is its header and the rule at its end, as in Triton', () => {
    assert.equal(textTable(['A'], []), '+---+\n| A |\n+---+\n+---+\n')
  })

  test('grows in height with a cell of several lines', () => {
    assert.equal(
      textTable(['A', 'B'], [['1\n2', 'x']]),
      '+---+---+\n| A | B |\n+---+---+\n| 1 | x |\n| 2 |   |\n+---+---+\n',
    )
  })
})

test('the model table is sorted by name, then version, and says why a model does not serve', () => {
  const rows = modelRows([
    { name: 'b', version: '10', state: 'READY', reason: '' },
    { name: 'b', version: '9', state: 'READY', reason: '' },
    { name: 'a', version: '1', state: 'UNAVAILABLE', reason: 'Internal: no file' },
    { name: 'c', version: '', state: '', reason: 'no versions' },
  ])
  assert.deepEqual(rows, [
    ['a', '1', 'UNAVAILABLE: Internal: no file'],
    ['b', '9', 'READY'],
    ['b', '10', 'READY'],
    ['c', '-', 'UNAVAILABLE: no versions'],
  ])
  const without = [{ name: 'c', version: '', state: 'UNAVAILABLE' as const, reason: 'no versions' }]
  assert.deepEqual(modelRows(without, true), [['c', '-', 'Not loaded: No model version was found']])
})

test("the option table has Triton's rows in Triton's order, with what the flags say", () => {
  const args = [
    '--triton-defaults',
    '--model-repository=/m',
    '--model-control-mode=explicit',
    '--load-model=b',
    '--load-model=a',
    '--rate-limit=execution_count',
    '--rate-limit-resource=Q:2:0',
    '--rate-limit-resource=R:3',
    '--cuda-memory-pool-byte-size=1:5',
    '--pinned-memory-pool-byte-size=1000',
    '--min-supported-compute-capability=7',
  ]
  assert.deepEqual(optionRows(optionsOf(args), ['x', 'y']), [
    ['server_id', 'triton'],
    ['server_version', '2.51.0'],
    ['server_extensions', 'x y'],
    ['model_repository_path[0]', '/m'],
    ['model_control_mode', 'MODE_EXPLICIT'],
    ['startup_models_0', 'a'],
    ['startup_models_1', 'b'],
    ['strict_model_config', '0'],
    ['model_config_name', ''],
    ['rate_limit', 'EXEC_COUNT'],
    ['rate_limit_resource[0]', '{"name":"R", "count":3 "device":-1}'],
    ['rate_limit_resource[1]', '{"name":"Q", "count":2 "device":0}'],
    ['pinned_memory_pool_byte_size', '1000'],
    ['cuda_memory_pool_byte_size{1}', '5'],
    ['min_supported_compute_capability', '7.0'],
    ['strict_readiness', '1'],
    ['exit_timeout', '30'],
    ['cache_enabled', '0'],
  ])
})
