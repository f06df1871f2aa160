import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serveArguments } from './tfserving.ts'

const added = (args: string[], environment: Record<string, string> = {}): string[] =>
  serveArguments(args, environment).args.slice(8)

test('the usual command line of one model', () => {
  assert.deepEqual(
    added(['--port=9000', '--rest_api_port', '8080', '--model_name=m', '--model_base_path=/mnt/models']),
    [
      '--grpc-port=9000',
      '--tfserving-port=8080',
      '--tfserving-model=m=/mnt/models',
      '--model-control-mode=poll',
      '--repository-poll-secs=1',
    ],
  )
})

test('a configuration file with batching, and flags of our own beside it', () => {
  assert.deepEqual(
    added([
      '--model_config_file=/c',
      '--enable_batching',
      '--batching_parameters_file=/b',
      '--file_system_poll_wait_seconds=0',
      '--allow-http=true',
      '--rest_api_port=0',
    ]),
    [
      '--tfserving-model-config-file=/c',
      '--tfserving-batching=true',
      '--tfserving-batching-file=/b',
      '--allow-http=true',
      '--tfserving-port=none',
      '--model-control-mode=none',
    ],
  )
})

test("the variables of TensorFlow Serving's image name the model", () => {
  assert.ok(added([], { MODEL_NAME: 'half' }).includes('--tfserving-model=half=/models/half'))
  assert.ok(added([], { MODEL_BASE_PATH: '/mnt' }).includes('--tfserving-model=model=/mnt/model'))
})

test('a flag without effect is named with a reason, and an unknown one is refused', () => {
  const { warnings } = serveArguments(['--ssl_config_file=x', '--model_base_path=/m'], {})
  assert.match(warnings[0] ?? '', /--ssl_config_file has no effect: use --grpc-use-ssl/)
  assert.throws(() => serveArguments(['--modle_name=x'], {}), /--modle_name is not known/)
  assert.throws(() => serveArguments(['x'], {}), /unexpected argument 'x'/)
})
