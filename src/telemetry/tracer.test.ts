import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test, { type TestContext } from 'node:test'
import { silentLog } from '../base/log.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { until } from '../../test/until.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import { tensorOfNumbers, tensorOfStrings } from '../tensor/typed-values.ts'
import { Tracer, type TracerOptions } from './tracer.ts'

const off: TracerOptions = { file: '', levels: [], rate: 1000, count: -1, logFrequency: 0 }
const on: TracerOptions = { file: 'trace.json', levels: ['TIMESTAMPS'], rate: 1, count: -1, logFrequency: 0 }

async function folder(t: TestContext): Promise<string> {
  const created = await mkdtemp(path.join(tmpdir(), 'galatea-trace-'))
  t.after(() => rm(created, { recursive: true }))
  return created
}

function requestOf(modelName = 'm', id = ''): InferenceRequest {
  const inputs = [tensorOfNumbers('IN', 'FP32', [1, 2], new Float32Array([1, 2.5]))]
  const request = new InferenceRequest({ modelName, id, inputs, sink: () => undefined })
  request.arrivalStamps = [['HTTP_RECV_START', 5]]
  return request
}

/** One request from its arrival to its end; true when it was traced. */
function serve(tracer: Tracer, request = requestOf()): boolean {
  const trace = tracer.begin(request)
  if (trace === null) return false
  Object.assign(request, { receivedNs: 10, queueStartNs: 20, computeStartNs: 30.4, computeInputEndNs: 40 })
  trace.admitted(request, '3', false)
  Object.assign(request, { computeOutputStartNs: 50, computeEndNs: 60, endNs: 70 })
  trace.responded(request, InferenceResponse.of([tensorOfStrings('OUT', [1], ['a"b'])]))
  trace.release()
  return true
}

const picked = (tracer: Tracer, count: number, modelName = 'm'): number =>
  Array.from({ length: count }, () => serve(tracer, requestOf(modelName))).filter(Boolean).length

test('one of every `rate` requests is picked, and no more than `count`', () => {
  assert.equal(picked(new Tracer(silentLog, off), 10), 0)
  const tracer = new Tracer(silentLog, { ...on, rate: 5, count: 3, logFrequency: 1000 })
  assert.equal(picked(tracer, 10), 2)
  assert.equal(tracer.settings('').count, 1)
  assert.equal(picked(tracer, 100), 1)
  assert.equal(tracer.settings('').count, 0)
})

test('a model inherits each setting until it has its own, and again after that is cleared', () => {
  const tracer = new Tracer(silentLog, off)
  tracer.update('m', { rate: 9 })
  tracer.update('', { rate: 3, count: 8 })
  assert.deepEqual(tracer.settings('m'), { levels: [], rate: 9, count: 8, logFrequency: 0 })
  assert.deepEqual(tracer.settings('other'), { levels: [], rate: 3, count: 8, logFrequency: 0 })
  tracer.update('m', { rate: null })
  assert.deepEqual(tracer.settings('m'), tracer.settings(''))
  tracer.update('', { rate: null, count: null })
  assert.deepEqual(tracer.settings('m'), { levels: [], rate: 1000, count: -1, logFrequency: 0 })
})

test('a count that a client has set goes on with its rest; that of the start begins anew with each change', async (t) => {
  const file = path.join(await folder(t), 'trace.json')
  const tracer = new Tracer(silentLog, { ...on, file, count: 5 })
  assert.equal(picked(tracer, 2), 2)
  assert.equal(tracer.settings('').count, 3)
  tracer.update('', { rate: 2 })
  assert.equal(tracer.settings('').count, 5)
  tracer.update('', { rate: 1, count: 4 })
  assert.equal(picked(tracer, 3), 3)
  tracer.update('', { logFrequency: 7 })
  assert.equal(tracer.settings('').count, 1)
  tracer.update('', { count: null })
  assert.equal(tracer.settings('').count, 5)
  await tracer.close()
})

test('settings whose count is 0 are refused where a level is on, as Triton refuses them, though it starts with them', async (t) => {
  const file = path.join(await folder(t), 'trace.json')
  const tracer = new Tracer(silentLog, { ...on, file, count: 0 })
  const refused = { code: 'INVALID_ARG', message: 'Attempting to set invalid trace setting :' }
  assert.throws(() => tracer.update('', { rate: 2 }), refused)
  assert.throws(() => tracer.update('m', { rate: 2 }), refused)
  tracer.update('', { levels: [] })
  assert.throws(() => tracer.update('', { levels: ['TIMESTAMPS'] }), refused)
  tracer.update('', { levels: ['TIMESTAMPS'], count: 1 })
  assert.equal(tracer.settings('').count, 1)
  await tracer.close()
})

test('tracing needs a file and a rate, and a refused change changes nothing', () => {
  const tracer = new Tracer(silentLog, off)
  assert.throws(() => tracer.update('', { levels: ['TIMESTAMPS'], count: 5 }), {
    code: 'INVALID_ARG',
    message: 'Attempting to set invalid trace setting :trace file name is not given',
  })
  assert.equal(tracer.settings('').count, -1)
  assert.throws(() => new Tracer(silentLog, { ...on, rate: 0 }), {
    message: 'Attempting to set invalid trace setting :sample rate must be non-zero',
  })
})

test('tracing is on while any model traces', async (t) => {
  const tracer = new Tracer(silentLog, { ...on, file: path.join(await folder(t), 'trace.json'), levels: [] })
  assert.equal(tracer.isOn, false)
  tracer.update('m', { levels: ['TENSORS'], logFrequency: 1000, rate: 1 })
  assert.equal(tracer.isOn, true)
  assert.deepEqual([picked(tracer, 2, 'm'), picked(tracer, 2, 'other')], [2, 0])
  tracer.update('m', { levels: [] })
  assert.equal(tracer.isOn, false)
})

test('timestamps are written under Triton’s names, moments that were not reached left out', async (t) => {
  const file = path.join(await folder(t), 'trace.json')
  const tracer = new Tracer(silentLog, { ...on, file })
  serve(tracer, requestOf('m', 'abc'))
  const failed = requestOf()
  tracer.begin(failed)?.release()
  await tracer.close()
  const records = JSON.parse(await readFile(file, 'utf8')) as { id: number; timestamps?: [{ name: string }] }[]
  assert.deepEqual(records[1], { id: 1, model_name: 'm', model_version: 3, request_id: 'abc' })
  assert.deepEqual(
    records.filter(({ id, timestamps }) => id === 1 && timestamps).map(({ timestamps }) => timestamps?.[0]),
    [
      { name: 'HTTP_RECV_START', ns: 5 },
      { name: 'REQUEST_START', ns: 10 },
      { name: 'QUEUE_START', ns: 20 },
      { name: 'COMPUTE_START', ns: 30 },
      { name: 'COMPUTE_INPUT_END', ns: 40 },
      { name: 'COMPUTE_OUTPUT_START', ns: 50 },
      { name: 'COMPUTE_END', ns: 60 },
      { name: 'INFER_RESPONSE_COMPLETE', ns: 70 },
      { name: 'REQUEST_END', ns: 70 },
    ],
  )
  assert.deepEqual(
    records.filter(({ id }) => id === 2),
    [{ id: 2, timestamps: [{ name: 'HTTP_RECV_START', ns: 5 }] }],
  )
})

test('tensors are written as text, without timestamps when only they were asked for', async (t) => {
  const file = path.join(await folder(t), 'trace.json')
  const tracer = new Tracer(silentLog, { ...on, file, levels: ['TENSORS'] })
  serve(tracer)
  await tracer.close()
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), [
    { id: 1, activity: 'TENSOR_QUEUE_INPUT', tensor: { name: 'IN', data: '1,2.5', shape: '1,2', dtype: 'FP32' } },
    { id: 1, activity: 'TENSOR_BACKEND_OUTPUT', tensor: { name: 'OUT', data: '"a"b"', shape: '1', dtype: 'BYTES' } },
  ])
})

test('with a log frequency every so many traces are a file of their own, the rest at the end', async (t) => {
  const directory = await folder(t)
  const tracer = new Tracer(silentLog, { ...on, file: path.join(directory, 'trace.json'), logFrequency: 2 })
  for (let i = 0; i < 5; i++) serve(tracer)
  await tracer.close()
  const names = (await readdir(directory)).sort()
  assert.deepEqual(names, ['trace.json.0', 'trace.json.1', 'trace.json.2'])
  const ids = await Promise.all(
    names.map(async (name) => {
      const records = JSON.parse(await readFile(path.join(directory, name), 'utf8')) as { id: number }[]
      return [...new Set(records.map(({ id }) => id))]
    }),
  )
  assert.deepEqual(ids, [[1, 2], [3, 4], [5]])
})

test('a trace waits for whoever still has something to stamp', async (t) => {
  const file = path.join(await folder(t), 'trace.json')
  const tracer = new Tracer(silentLog, { ...on, file })
  const trace = tracer.begin(requestOf())
  assert.ok(trace !== null)
  trace.retain()
  trace.release()
  trace.stamp('HTTP_SEND_END', 99)
  trace.release()
  await tracer.close()
  assert.match(await readFile(file, 'utf8'), /HTTP_SEND_END/)
})

test('a file that cannot be written is told of once and hurts nobody', async (t) => {
  const log = new MemoryLog()
  const tracer = new Tracer(log, { ...on, file: path.join(await folder(t), 'missing', 'trace.json') })
  serve(tracer)
  serve(tracer)
  await tracer.close()
  assert.deepEqual(
    log.entries.map(({ level, message }) => [level, message]),
    [['error', 'trace cannot be written']],
  )
})

test('records that wait for a numbered file are written when they are many, whatever the frequency says', async (t) => {
  const directory = await folder(t)
  const file = path.join(directory, 'trace.json')
  const tracer = new Tracer(silentLog, { ...on, file, logFrequency: 2 ** 31 - 1 })
  for (let i = 0; i < 10_000; i++) serve(tracer, requestOf('m', 'x'.repeat(1000)))
  await tracer.close()
  const names = await readdir(directory)
  assert.ok(names.length >= 3 && names.length <= 10, names.join())
  for (const name of names) JSON.parse(await readFile(path.join(directory, name), 'utf8'))
})

test('there are at most 10,000 numbered files, and the log says once that traces are left out', async (t) => {
  const directory = await folder(t)
  const log = new MemoryLog()
  const tracer = new Tracer(log, { ...on, file: path.join(directory, 'trace.json'), logFrequency: 1 })
  for (let count = 1000; count <= 10_000; count += 1000) {
    for (let i = 0; i < 1000; i++) serve(tracer)
    await until(async () => (await readdir(directory)).length === count, `${count} files`)
  }
  assert.deepEqual(log.entries, [])
  for (let i = 0; i < 10; i++) serve(tracer)
  await tracer.close()
  assert.equal((await readdir(directory)).length, 10_000)
  assert.deepEqual(
    log.entries.map(({ message }) => message),
    ['traces are left out: there are 10000 files of traces, the maximum: use a larger log_frequency'],
  )
})
