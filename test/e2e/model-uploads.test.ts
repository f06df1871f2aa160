// Load requests that bring the files of a model.

import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { GrpcClient, HttpClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { until } from '../until.ts'
import { startServerProcess } from './server-process.ts'

const tensor = (name: string): object => ({ name, data_type: 'TYPE_INT32', dims: [1] })
const config = { backend: 'identity', input: [tensor('IN')], output: [tensor('OUT')] }
const upload = { config, files: { '1/model.py': Buffer.from('x') } }

test('files in a load request are refused over every protocol unless the operator allows uploads', async () => {
  const repository = await temporaryRepository({ 'm/1/x': '' })
  const flags = [`--model-repository=${repository.root}`, '--model-control-mode=explicit']
  {
    await using server = await startServerProcess(flags)
    const clients = [
      new HttpClient({ url: `http://127.0.0.1:${server.port}` }),
      new GrpcClient({ url: `127.0.0.1:${server.grpcPort}` }),
    ]
    for (const client of clients) {
      await assert.rejects(client.loadModel('up', upload), {
        message: /'1\/model\.py': this server takes models from its repositories only\. Use --allow-model-uploads/,
      })
      // A configuration alone is no upload.
      await client.loadModel('m', { config })
      await client.close()
    }
  }
  {
    await using server = await startServerProcess([...flags, '--allow-model-uploads'])
    const client = new HttpClient({ url: `http://127.0.0.1:${server.port}` })
    await client.loadModel('up', upload)
    assert.equal(await client.isModelReady('up'), true)
    // As in Triton a path with a slash before it is one in the model's folder.
    for (const file of ['/1/model.py', '//1/./model.py']) {
      await client.loadModel('rooted', { config, files: { [file]: Buffer.from('x') } })
      assert.equal(await client.isModelReady('rooted'), true, file)
      await client.unloadModel('rooted')
    }
    for (const file of ['/../rooted/1/model.py', '/', '1/../../x']) {
      const files = { '1/model.py': Buffer.from('x'), [file]: Buffer.from('x') }
      await assert.rejects(client.loadModel('rooted', { config, files }), file)
    }
    await client.close()
  }
  await repository.remove()
})

test('a configuration that comes with a load request names nothing outside the model, over every protocol', async () => {
  const own = 'backend: "python" parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/opt/own" } }'
  const repository = await temporaryRepository({ 'm/1/model.py': '', 'm/config.pbtxt': own })
  await using server = await startServerProcess([
    `--model-repository=${repository.root}`,
    '--model-control-mode=explicit',
    '--allow-model-uploads',
  ])
  const attacks: [config: object, field: string][] = [
    [{ backend: 'python', parameters: { EXECUTION_ENV_PATH: { string_value: '/tmp/evil' } } }, 'EXECUTION_ENV_PATH'],
    [{ backend: 'onnxruntime', model_operations: { op_library_filename: ['../evil.so'] } }, 'op_library_filename'],
    [{ backend: 'pytorch', runtime: '../../evil.py' }, 'runtime'],
  ]
  for (const client of [
    new HttpClient({ url: `http://127.0.0.1:${server.port}` }),
    new GrpcClient({ url: `127.0.0.1:${server.grpcPort}` }),
  ]) {
    for (const [sent, field] of attacks) {
      const refusal = { message: new RegExp(`^${field}|^parameters\\["${field}"\\].* came with a load request`) }
      await assert.rejects(client.loadModel('m', { config: sent }), refusal)
      // An uploaded config.pbtxt vouches for nothing.
      const files = { '1/model.py': Buffer.from(''), 'config.pbtxt': Buffer.from(own.replace('/opt/own', '/tmp/evil')) }
      await assert.rejects(client.loadModel('up', { config: sent, files }), refusal)
    }
    await client.close()
  }
  await repository.remove()
})

test('what a killed server left of uploaded models goes when the next one starts', async () => {
  const repository = await temporaryRepository({ 'm/1/x': '' })
  const temporary = await mkdtemp(path.join(tmpdir(), 'galatea-left-'))
  const flags = [`--model-repository=${repository.root}`, '--model-control-mode=explicit', '--allow-model-uploads']
  const options = { environment: { TMPDIR: temporary } }
  const uploads = async (): Promise<number> =>
    (await readdir(temporary)).filter((name) => name.startsWith('galatea-upload-')).length
  const first = await startServerProcess(flags, options)
  const client = new HttpClient({ url: `http://127.0.0.1:${first.port}` })
  await client.loadModel('up', upload)
  assert.equal(await uploads(), 1)
  {
    // A server that runs keeps its own, whoever starts beside it.
    await using second = await startServerProcess(flags, options)
    const other = new HttpClient({ url: `http://127.0.0.1:${second.port}` })
    await other.loadModel('up', upload)
    assert.equal(await uploads(), 2)
    await other.close()
  }
  assert.equal(await uploads(), 1)
  first.signal('SIGKILL')
  await first.stop()
  await using third = await startServerProcess(flags, options)
  assert.ok(third.port > 0)
  await until(async () => (await uploads()) === 0, 'the stale folder gone')
  await client.close()
  await rm(temporary, { recursive: true })
  await repository.remove()
})
