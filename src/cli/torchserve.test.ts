import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseProperties, torchserveFlagsOf } from './torchserve.ts'

test('a properties file has comments, continued lines, and = or : between key and value', () => {
  const text =
    '# comment\n! another\ninference_address = http://0.0.0.0:8085\nload_models=a.mar,\\\n   b.mar\njob_queue_size: 7\n'
  assert.deepEqual(parseProperties(text), {
    inference_address: 'http://0.0.0.0:8085',
    load_models: 'a.mar,b.mar',
    job_queue_size: '7',
  })
})

test('a command line of TorchServe and its properties become flags', () => {
  const args = [
    '--start',
    '--ncs',
    '--model-store',
    'store',
    '--models',
    'a=a.mar',
    'b.mar',
    '--ts-config',
    'c',
    '--foreground',
  ]
  const { flags, notes } = torchserveFlagsOf([...args, '--log-verbose=1'], {
    inference_address: 'http://0.0.0.0:8085',
    management_address: 'http://127.0.0.1:8086',
    enable_model_api: 'true',
    allowed_urls: 'file://.*, https://models.example/.*',
    load_models: 'ignored.mar',
    workflow_store: 'w',
  })
  assert.deepEqual(flags.slice(5), [
    '--torchserve-model-store=store',
    '--torchserve-model=a=a.mar',
    '--torchserve-model=b.mar',
    '--torchserve-address=0.0.0.0',
    '--torchserve-inference-port=8085',
    '--torchserve-management-port=8086',
    '--torchserve-enable-model-api=true',
    '--torchserve-allowed-url=file://.*',
    '--torchserve-allowed-url=https://models.example/.*',
    '--log-verbose=1',
  ])
  assert.deepEqual(notes, ['workflow_store of config.properties has no effect'])
})
