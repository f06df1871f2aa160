import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readTuneOptions, type TuneOptions } from './tune-options.ts'
import { NotTunable, planSearch } from './search-space.ts'

const read = (...args: string[]): TuneOptions => {
  const options = readTuneOptions(['-m', 'm', '--model-repository', '/models', ...args])
  assert.notEqual(options, 'help')
  return options as TuneOptions
}

test('limits are read in their units, and are none unless given', () => {
  assert.equal(read().latencyMs, Infinity)
  assert.equal(read().memoryMib, Infinity)
  assert.equal(read('--latency-ms', '12.5').latencyMs, 12.5)
  assert.equal(read('--max-memory', '2GB').memoryMib, 2048)
  assert.equal(read('--max-memory', '1048576').memoryMib, 1)
})

test('mistakes are refused with what to do', () => {
  assert.throws(() => readTuneOptions(['--model-repository', '/m']), /-m names the model/)
  assert.throws(() => readTuneOptions(['-m', 'm']), /--model-repository PATH, or -u/)
  assert.throws(() => readTuneOptions(['-m', 'm', '-u', 'localhost:8000', '--apply']), /--apply writes config\.pbtxt/)
  assert.throws(() => read('--latency-ms', 'fast'), /--latency-ms must be a number above 0, got 'fast'/)
  assert.throws(() => read('--percentile', '100'), /between 1 and 99\.99/)
  assert.throws(() => read('--max-memory', 'much'), /500MB or 2GB, got 'much'/)
  assert.throws(() => read('--nonsense'), /Unknown option '--nonsense'$/)
  assert.throws(() => read('--latency', '5'), /did you mean --latency-ms\?/)
  assert.throws(() => read('--max-instance', '5'), /did you mean --max-instances\?/)
  assert.throws(() => readTuneOptions(['-m', 'm', '-u', 'h:1', '--', '--log-verbose=1']), /flags after --/)
})

test('an ensemble is refused with the models to tune instead', () => {
  const config = { ensemble_scheduling: { step: [{ model_name: 'a' }, { model_name: 'b' }, { model_name: 'a' }] } }
  assert.throws(
    () => planSearch(config, read()),
    (reason) => reason instanceof NotTunable && reason.message.endsWith('its steps: a, b'),
  )
})

test('a decoupled model wants gRPC streams', () => {
  const config = { max_batch_size: 0, model_transaction_policy: { decoupled: true } }
  assert.throws(() => planSearch(config, read()), /add -i grpc/)
  assert.deepEqual(planSearch(config, read('-i', 'grpc')).perfArgs, ['--streaming'])
})

test('of sequence models and of those without batches only instances are tuned', () => {
  for (const config of [{ max_batch_size: 8, sequence_batching: {} }, { max_batch_size: 0 }]) {
    const { space, notes } = planSearch(config, read('--max-instances', '4'))
    assert.deepEqual(space.batchSizes, [])
    assert.deepEqual(space.instances, [1, 2, 3, 4])
    assert.match(notes.join(), /only instances are tuned/)
  }
})

test('more rows than the model takes in one request are refused, also by a model without batches', () => {
  assert.throws(() => planSearch({ max_batch_size: 8 }, read('-b', '9')), /-b 9 is more than .* max_batch_size of 8/)
  assert.throws(() => planSearch({ max_batch_size: 0 }, read('-b', '2')), /-b 2 is more than .* max_batch_size of 0/)
})

test('delays stay below half of the latency limit, batches within what was asked', () => {
  const { space } = planSearch({ max_batch_size: 8 }, read('--latency-ms', '3', '--max-batch-size', '24'))
  assert.deepEqual(space.delaysUs, [100, 500, 1000])
  assert.deepEqual(space.batchSizes, [8, 16, 24])
})

test('max_batch_size is never lowered, because clients may send as many rows', () => {
  const sizes = (now: number, most: string): readonly number[] =>
    planSearch({ max_batch_size: now }, read('--max-batch-size', most)).space.batchSizes
  assert.deepEqual(sizes(1, '16'), [4, 8, 16])
  assert.deepEqual(sizes(64, '16'), [64])
})
