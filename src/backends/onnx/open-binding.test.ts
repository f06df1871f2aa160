import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
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
