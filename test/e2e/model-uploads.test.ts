// Load requests that bring the files of a model.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GrpcClient, HttpClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { startServerProcess } from './server-process.ts'

const tensor = (name: string): object => ({ name, data_type: 'TYPE_INT32', dims: [1] })
const config = { backend: 'identity', input: [tensor('IN')], output: [tensor('OUT')] }
const upload = { config, files: { '1/model.py': Buffer.from('x') } }

test('files in a load request are refused over every protocol unless the operator allows uploads', async () => {
  const repository = await temporaryRepository({ 'm/1/x': '' })
  const flags = [`--model-repository=${repository.root}`, '--model-control-mode=explicit']
  {
    await using server = await startServerProcess([...flags, '--grpc-port=0'])
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
      client.close()
    }
  }
  {
    await using server = await startServerProcess([...flags, '--allow-model-uploads'])
    const client = new HttpClient({ url: `http://127.0.0.1:${server.port}` })
    await client.loadModel('up', upload)
    assert.equal(await client.isModelReady('up'), true)
    client.close()
  }
  await repository.remove()
})
