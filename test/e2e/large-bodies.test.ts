// Large tensors over plain HTTP and gRPC: their bytes are read straight to their place, and the memory of a body is used again
// for the next one. No request may see bytes of another, whoever goes away in between.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createGrpcClient, createHttpClient } from '../../src/client/node.ts'
import { buildOnnx, type OnnxNode } from '../fixtures/onnx/build-onnx.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

let server: ServerProcess
let repository = ''

before(async () => {
  repository = await mkdtemp(path.join(tmpdir(), 'galatea-large-'))
  await mkdir(path.join(repository, 'extremes/1'), { recursive: true })
  const node = (op: string, output: string): OnnxNode => ({
    op,
    inputs: ['X'],
    outputs: [output],
    attributes: [{ name: 'keepdims', int: 0 }],
  })
  const model = buildOnnx({
    nodes: [node('ReduceMin', 'MIN'), node('ReduceMax', 'MAX')],
    inputs: [{ name: 'X', type: 'INT32', shape: ['n'] }],
    outputs: [
      { name: 'MIN', type: 'INT32', shape: [] },
      { name: 'MAX', type: 'INT32', shape: [] },
    ],
  })
  await writeFile(path.join(repository, 'extremes/1/model.onnx'), model)
  server = await startServerProcess([`--model-repository=${repository}`])
})

after(async () => {
  await server.stop()
  await rm(repository, { recursive: true, force: true })
})

/** A body of which nearly all is sent, by a client that then goes away. */
async function breakOff(elements: number): Promise<void> {
  const socket = net.connect(server.port, '127.0.0.1').on('error', () => undefined)
  const head = `POST /v2/models/extremes/infer HTTP/1.1\r\nHost: a\r\nContent-Length: ${elements * 4}\r\n\r\n`
  socket.write(head)
  socket.write(Buffer.alloc(elements * 4 - 10, 0xff))
  await once(socket, 'drain')
  socket.destroy()
}

test('many large requests at once, over both protocols, each answered about its own bytes', async () => {
  const grpc = createGrpcClient({ url: `127.0.0.1:${server.grpcPort}` })
  const clients = [createHttpClient({ url: `127.0.0.1:${server.port}` }), grpc]
  const ask = async (number: number): Promise<void> => {
    // Three sizes around 1.5 MB, so that memory is used again for bodies that are a little shorter or longer.
    const elements = 400_000 + (number % 3) * 1000
    if (number % 10 === 9) await breakOff(elements)
    const client = clients[number % 2] as (typeof clients)[number]
    const result = await client.infer('extremes', { X: new Int32Array(elements).fill(number) })
    const [least, most] = ['MIN', 'MAX'].map((name) => Array.from(result.output(name).data as Int32Array))
    assert.deepEqual([least, most], [[number], [number]])
  }
  for (let round = 0; round < 3; round++) {
    await Promise.all(Array.from({ length: 12 }, (_, i) => ask(round * 12 + i + 1)))
  }
  await grpc.close()
})
