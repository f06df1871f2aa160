import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { Gpus } from '../../cuda/gpus.ts'
import { OnnxBackend } from './onnx-backend.ts'
import { openBinding } from './open-binding.ts'

const open = async (options: {
  environment?: NodeJS.ProcessEnv
  settings?: Record<string, string>
  openNative?: () => Promise<never>
}) => {
  const log = new MemoryLog()
  const { environment = {}, settings = {}, openNative } = options
  const dependencies = {
    clock: new ManualClock(),
    log,
    environment,
    ...(openNative === undefined ? {} : { openNative }),
  }
  const binding = await openBinding(dependencies, new Map(Object.entries(settings)))
  await binding.close()
  return { name: binding.name, log: log.entries }
}

test('the C API is used where it can be, without a word', async () => {
  assert.deepEqual(await open({}), { name: 'c-api', log: [] })
})

test('where koffi or the library cannot be loaded, onnxruntime-node serves and a line says why', async () => {
  const { name, log } = await open({ openNative: () => Promise.reject(new Error('no such library')) })
  assert.equal(name, 'javascript')
  assert.deepEqual(
    log.map(({ level, fields }) => [level, fields['reason']]),
    [['warning', 'no such library']],
  )
})

test('GALATEA_ONNX_BINDING=javascript asks for onnxruntime-node, and the backend’s own setting comes before it', async () => {
  const environment = { GALATEA_ONNX_BINDING: 'javascript' }
  assert.equal((await open({ environment })).name, 'javascript')
  assert.equal((await open({ environment, settings: { binding: 'c-api' } })).name, 'c-api')
})

test('where there is a GPU that ONNX models cannot use, the log says once what to do', async () => {
  const log = new MemoryLog()
  const gpus = new Gpus({ count: 1 })
  const backend = new OnnxBackend({ clock: new ManualClock(), log, gpus, interpreter: '/no/python' })
  for (let i = 0; i < 3; i++) assert.equal(await backend.usesGpus(), false)
  const [said, ...more] = log.entries.map(({ message }) => message)
  assert.match(
    said ?? '',
    /^ONNX models that name no kind run on the CPU, although there is a GPU: the Python '\/no\/python' cannot be asked .*pip install/,
  )
  assert.deepEqual(more, [])
  await backend.close()
})
