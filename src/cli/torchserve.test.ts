import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { runImport } from './import-archive.ts'
import { parseProperties, runTorchserve, torchserveFlagsOf, withEnvironment } from './torchserve.ts'

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
  const file = {
    inference_address: 'http://0.0.0.0:8085',
    management_address: 'http://127.0.0.1:8086',
    enable_model_api: 'true',
    allowed_urls: 'file://.*, https://models.example/.*',
    load_models: 'ignored.mar',
    workflow_store: 'w',
    disable_token_authorization: 'true',
  }
  const { args: flags, warnings } = torchserveFlagsOf([...args, '--log-verbose=1'], { file, environment: {} })
  assert.deepEqual(flags.slice(9), [
    '--torchserve-model-store=store',
    '--torchserve-model=a=a.mar',
    '--torchserve-model=b.mar',
    '--torchserve-address=0.0.0.0',
    '--torchserve-inference-port=8085',
    '--torchserve-management-address=127.0.0.1',
    '--torchserve-management-port=8086',
    '--torchserve-enable-model-api=true',
    '--torchserve-allowed-url=file://.*',
    '--torchserve-allowed-url=https://models.example/.*',
    '--log-verbose=1',
  ])
  assert.deepEqual(warnings, ['workflow_store of config.properties has no effect'])
})

const ownFlags = (args: readonly string[], properties: Record<string, string>, variables: Record<string, string>) =>
  torchserveFlagsOf(args, withEnvironment(properties, variables)).args.slice(9)

test('with enable_envvars_config=true variables TS_KEY come before the file and before the command line', () => {
  const properties = { enable_envvars_config: 'true', job_queue_size: '7', enable_model_api: 'true', model_store: 'f' }
  const args = ['--model-store', 'c', '--enable-model-api']
  const variables = {
    TS_MODEL_STORE: 'v',
    TS_JOB_QUEUE_SIZE: '9',
    TS_ENABLE_MODEL_API: 'false',
    TS_LOAD_MODELS: 'a.mar, b=b.mar',
    TS_CONFIG_FILE: 'not a key',
    TS_METRICS_MODE: 'log',
    JOB_QUEUE_SIZE: '11',
  }
  const models = ['--torchserve-model=a.mar', '--torchserve-model=b=b.mar']
  assert.deepEqual(ownFlags(args, properties, variables), [
    '--torchserve-model-store=v',
    ...models,
    '--torchserve-enable-model-api',
    '--torchserve-job-queue-size=9',
    '--torchserve-enable-model-api=false',
  ])
  const without = { ...properties, enable_envvars_config: 'false' }
  assert.deepEqual(ownFlags([], without, variables), [
    '--torchserve-model-store=f',
    '--torchserve-job-queue-size=7',
    '--torchserve-enable-model-api=true',
  ])
})

test('TS_ALLOWED_URLS is read only with use_env_allowed_urls=true', () => {
  const variables = { TS_ALLOWED_URLS: 'https://elsewhere/.*' }
  const properties = { enable_envvars_config: 'true', allowed_urls: 'https://here/.*' }
  assert.deepEqual(ownFlags([], properties, variables), ['--torchserve-allowed-url=https://here/.*'])
  const allowing = { ...properties, use_env_allowed_urls: 'true' }
  assert.deepEqual(ownFlags([], allowing, variables), ['--torchserve-allowed-url=https://elsewhere/.*'])
})

test('$$NAME$$ in a value is a variable, which must be there', () => {
  const properties = { model_store: '/a/$$WHERE$$/$$WHERE$$' }
  assert.deepEqual(ownFlags([], properties, { WHERE: 'b' }), ['--torchserve-model-store=/a/b/b'])
  assert.throws(() => withEnvironment(properties, {}), /^Error: Invalid Environment Variable WHERE$/)
})

test('each port stays on this machine unless its own key says otherwise', () => {
  const { args } = torchserveFlagsOf([], { file: { inference_address: 'http://0.0.0.0' }, environment: {} })
  for (const port of ['management', 'metrics', 'grpc-inference', 'grpc-management']) {
    assert.ok(args.includes(`--torchserve-${port}-address=127.0.0.1`), port)
  }
  assert.deepEqual(args.slice(9), ['--torchserve-address=0.0.0.0', '--torchserve-inference-port=80'])
  assert.deepEqual(ownFlags([], { grpc_management_address: '0.0.0.0', management_address: 'http://[::1]:1' }, {}), [
    '--torchserve-grpc-management-address=0.0.0.0',
    '--torchserve-management-address=::1',
    '--torchserve-management-port=1',
  ])
  assert.throws(() => ownFlags([], { inference_address: 'unix:/tmp/a' }, {}), /^Error: Invalid binding address/)
})

test('https addresses need a certificate and its key, which all HTTP ports then have', () => {
  const certificate = { certificate_file: 'c.pem', private_key_file: 'k.pem' }
  const address = { inference_address: 'https://127.0.0.1:8443' }
  const secured = ['--http-use-ssl=true', '--http-server-cert=c.pem', '--http-server-key=k.pem']
  assert.deepEqual(ownFlags([], { ...address, ...certificate }, {}).slice(2), secured)
  const grpc = ['--grpc-use-ssl=true', '--grpc-server-cert=c.pem', '--grpc-server-key=k.pem']
  assert.deepEqual(ownFlags([], { enable_grpc_ssl: 'true', ...certificate }, {}), grpc)
  assert.deepEqual(ownFlags([], certificate, {}), [])
  assert.throws(() => ownFlags([], { ...address, keystore: 'k.p12' }, {}), /a keystore is not read/)
})

test('a snapshot names the models in place of every list, the default version first', () => {
  const models = {
    a: { '1.0': { marName: 'a1.mar' }, '2.0': { marName: 'a2.mar', defaultVersion: true, minWorkers: 2 } },
  }
  const properties = { load_models: 'all', model_snapshot: JSON.stringify({ name: 'startup.cfg', models }) }
  assert.deepEqual(ownFlags(['--models', 'b.mar'], properties, {}), [
    '--torchserve-model=a=a2.mar',
    '--torchserve-model=a=a1.mar',
    `--torchserve-model-settings=${JSON.stringify(models)}`,
  ])
  assert.deepEqual(ownFlags([], { models: '{}' }, {}), ['--torchserve-model-settings={}'])
})

test('a command line that does not switch tokens off is told that there are none', () => {
  const warned = (args: string[], file: Record<string, string> = {}): boolean =>
    torchserveFlagsOf(args, { file, environment: {} }).warnings.some((text) => text.includes('no token files'))
  assert.deepEqual(
    [
      warned([]),
      warned(['--disable-token-auth']),
      warned(['--dt']),
      warned([], { disable_token_authorization: 'TRUE' }),
    ],
    [true, false, false, false],
  )
})

test('an archive that cannot be imported leaves no repository behind that was not there', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-import-'))
  const told: string[] = []
  const io = { stdout: (text: string) => told.push(text), stderr: (text: string) => told.push(text) }
  try {
    const repository = path.join(root, 'models')
    assert.equal(await runImport([path.join(root, 'none.mar'), `--model-repository=${repository}`], io), 1)
    assert.match(told.join(''), /^galatea import: .*none\.mar: /)
    assert.deepEqual(await readdir(root), [])
  } finally {
    await rm(root, { recursive: true })
  }
})

test('--help tells what the command takes, and starts nothing', async () => {
  let said = ''
  const write = (text: string): void => void (said += text)
  assert.equal(await runTorchserve(['--help'], { stdout: write, stderr: write }), 0)
  assert.match(said, /^Usage: galatea torchserve /)
})
