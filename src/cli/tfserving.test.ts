import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serveArguments } from './tfserving.ts'

const added = (args: string[], environment: Record<string, string> = {}): string[] =>
  serveArguments(args, environment).args.slice(9)

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

test('a configuration file takes the place of a model by name and folder', () => {
  const image = { MODEL_NAME: 'half', MODEL_BASE_PATH: '/models' }
  const args = added(['--model_config_file=/c', '--model_name=m', '--model_base_path=/mnt/m'], image)
  assert.deepEqual(
    args.filter((arg) => arg.startsWith('--tfserving-model=')),
    [],
  )
})

test('messages may be as large as in TensorFlow Serving, unless its arguments of channels say otherwise', () => {
  const sizes = (...more: string[]): string[] =>
    serveArguments(['--model_base_path=/m', ...more], {}).args.filter((arg) => arg.includes('max-message-size'))
  assert.deepEqual(sizes(), ['--grpc-max-message-size=2147483647'])
  assert.equal(
    sizes('--grpc_channel_arguments=grpc.max_receive_message_length=4096').at(-1),
    '--grpc-max-message-size=4096',
  )
})

test('flags that contradict each other are refused', () => {
  const refused = (...args: string[]): (() => void) => () => void serveArguments(['--model_base_path=/m', ...args], {}) // prettier-ignore
  assert.throws(refused('--batching_parameters_file=/b'), /is set without --enable_batching/)
  assert.throws(refused('--batching_parameters_file=/b', '--enable_batching=false'), /is set without/)
  assert.throws(refused('--port=0'), /at least one of --port and --grpc_socket_path/)
  assert.doesNotThrow(refused('--port=0', '--grpc_socket_path=/s'))
})

test("the variables of TensorFlow Serving's image name the model", () => {
  assert.ok(added([], { MODEL_NAME: 'half' }).includes('--tfserving-model=half=/models/half'))
  assert.ok(added([], { MODEL_BASE_PATH: '/mnt' }).includes('--tfserving-model=model=/mnt/model'))
})

test('a flag without effect is named with a reason, and an unknown one is refused', () => {
  const { warnings } = serveArguments(
    ['--grpc_max_threads=4', '--enable_model_warmup=false', '--model_base_path=/m'],
    {},
  )
  assert.deepEqual(warnings.length, 1)
  assert.match(warnings[0] ?? '', /--grpc_max_threads has no effect: one thread/)
  assert.throws(() => serveArguments(['--use_alts_credentials'], {}), /ALTS is not there/)
  assert.throws(() => serveArguments(['--modle_name=x'], {}), /--modle_name is not known/)
  assert.throws(() => serveArguments(['x'], {}), /unexpected argument 'x'/)
})

test('threads, tags, retries, time limits and arguments of channels become flags of our own', () => {
  const { args, warnings } = serveArguments(
    [
      '--tensorflow_session_parallelism=3',
      '--saved_model_tags=serve',
      '--load_retry_interval_micros=1500',
      '--rest_api_timeout_in_ms=250',
      '--grpc_channel_arguments=grpc.max_connection_age_ms=2000,grpc.keepalive_permit_without_calls=1',
      '--ssl_config_file=/ssl',
      '--model_base_path=/m',
    ],
    {},
  )
  assert.deepEqual(warnings, [])
  assert.deepEqual(args.slice(9, 17), [
    '--tfserving-model-parameter=TF_NUM_INTRA_THREADS=3',
    '--tfserving-model-parameter=TF_NUM_INTER_THREADS=3',
    '--tfserving-model-parameter=TF_GRAPH_TAG=serve',
    '--model-load-retry-delay-ms=2',
    '--tfserving-timeout-ms=250',
    '--grpc-max-connection-age=2000',
    '--grpc-keepalive-permit-without-calls=true',
    '--tfserving-ssl-config-file=/ssl',
  ])
  assert.throws(() => serveArguments(['--grpc_channel_arguments=grpc.census=1'], {}), /'grpc.census' is not known/)
})
