import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'

import { startHttpFixture, type HttpFixture } from '../../../test/conformance/http-fixture.ts'
import { SystemClock } from '../../base/clock.ts'
import { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { createHttpPort } from '../../http-front-ends.ts'
import type { HttpPort } from '../../ports/http/http-port.ts'
import { defaultOptions } from '../../options/options-from-flags.ts'
import { inject, type InjectedAnswer, type InjectedInit } from '../../../test/fakes/injected-request.ts'
import { until } from '../../../test/until.ts'

const config =
  'input { name: "X" data_type: TYPE_UINT8 dims: [ -1 ] } output { name: "Y" data_type: TYPE_UINT8 dims: [ -1 ] }'
const held: InferenceRequest[] = []
let releasedCount = 0

let directory: string
let registry: SharedMemoryRegistry
let fixture: HttpFixture
let frontend: HttpPort

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-shm-'))
  registry = new SharedMemoryRegistry({ isAllowed: true, directory })
  held.length = 0
  releasedCount = 0
  fixture = await startHttpFixture(
    {},
    {
      same: {
        config,
        run: (request) => {
          const { shape, bytes } = request.inputs[0] as Tensor
          const release = (): void => void releasedCount++
          request.respond(InferenceResponse.of([new Tensor('Y', 'UINT8', shape, bytes)], { release }))
        },
      },
      slow: { config, run: (request) => void held.push(request) },
    },
  )
  const { engine, log } = fixture
  frontend = createHttpPort(
    { engine, log, clock: new SystemClock(), sharedMemory: registry },
    { ...defaultOptions().http, port: 0 },
  )
})
afterEach(async () => {
  await frontend.close()
  await fixture.close()
  registry.close()
  fs.rmSync(directory, { recursive: true })
})

const send = (method: string, target: string, body = '', init: Partial<InjectedInit> = {}): Promise<InjectedAnswer> =>
  inject(frontend, { method, path: target, body, ...init })
const errorOf = (answer: InjectedAnswer): string => (JSON.parse(answer.body.toString()) as { error: string }).error

const register = async (name: string, content: Uint8Array): Promise<string> => {
  const file = path.join(directory, name)
  fs.writeFileSync(file, content)
  const body = JSON.stringify({ key: `/${name}`, byte_size: content.length })
  const answer = await send('POST', `/v2/systemsharedmemory/region/${name}/register`, body)
  assert.equal(answer.status, 200, answer.body.toString())
  return file
}
const place = (region: string, offset: number, byteSize: number): object => ({
  shared_memory_region: region,
  shared_memory_offset: offset,
  shared_memory_byte_size: byteSize,
})
const inferBody = (count: number, input: object, output: object | null = null): string =>
  JSON.stringify({
    inputs: [{ name: 'X', shape: [count], datatype: 'UINT8', parameters: input }],
    ...(output === null ? {} : { outputs: [{ name: 'Y', parameters: output }] }),
  })

for (const size of [1000, 3 * 1024 * 1024]) {
  test(`${size} bytes come from one region and go to another`, async () => {
    const content = Buffer.alloc(size, 'galatea')
    await register('in', content)
    const file = await register('out', new Uint8Array(size + 10))
    const body = inferBody(size, place('in', 0, size), place('out', 10, size))
    const answer = await send('POST', '/v2/models/same/infer', body)
    assert.equal(
      answer.body.toString(),
      `{"model_name":"same","model_version":"1","outputs":[{"name":"Y","datatype":"UINT8","shape":[${size}]}]}`,
    )
    assert.equal(Buffer.compare(fs.readFileSync(file).subarray(10), content), 0)
    assert.equal(releasedCount, 1)
    registry.unregisterSystem('')
    assert.deepEqual(registry.systemStatus(''), [])
  })
}

for (const kind of ['system', 'cuda'] as const) {
  test(`a registration of ${kind} memory without the name of a region is refused for the missing name`, async () => {
    for (const body of ['', '{', '{"key":"/x","byte_size":4}']) {
      const answer = await send('POST', `/v2/${kind}sharedmemory/register`, body)
      assert.equal(answer.status, 400)
      assert.equal(errorOf(answer), `'region name' is necessary to register ${kind} shared memory region`)
    }
    assert.equal((await send('GET', `/v2/${kind}sharedmemory/register`)).status, 405)
  })
}

test('an unknown region, a place outside and a region that was truncated are refused before the model runs', async () => {
  const file = await register('in', new Uint8Array(64))
  const unknown = await send('POST', '/v2/models/same/infer', inferBody(8, place('nobody', 0, 8)))
  assert.equal(unknown.status, 404)
  assert.equal(errorOf(unknown), "Unable to find shared memory region: 'nobody'")
  const outside = await send('POST', '/v2/models/same/infer', inferBody(8, place('in', 60, 8)))
  assert.equal(outside.status, 400)
  assert.equal(errorOf(outside), "Invalid offset + byte size for shared memory region: 'in'")
  fs.truncateSync(file, 0)
  const truncated = await send('POST', '/v2/models/same/infer', inferBody(8, place('in', 0, 8)))
  assert.equal(truncated.status, 400)
  assert.match(errorOf(truncated), /^shared memory region 'in' has been truncated/)
  assert.equal(truncated.headers['content-type'], 'application/json')
})

test('an output that cannot be written is the answer’s error and its memory goes back', async () => {
  await register('in', new Uint8Array(64))
  const body = inferBody(16, place('in', 0, 16), place('in', 32, 8))
  const answer = await send('POST', '/v2/models/same/infer', body)
  assert.equal(answer.status, 500)
  assert.match(errorOf(answer), /^shared memory size specified with the request for output 'Y' \(8 bytes\)/)
  assert.equal(releasedCount, 1)
})

test('a region that a request in flight writes to is unregistered when that request has ended', async () => {
  const file = await register('r', new Uint8Array(64))
  const pending = send('POST', '/v2/models/slow/infer', inferBody(8, place('r', 0, 8), place('r', 32, 8)))
  assert.equal(held.length, 1)
  assert.equal((await send('POST', '/v2/systemsharedmemory/region/r/unregister')).status, 200)
  assert.equal(registry.systemStatus('').length, 1)
  held[0]?.respond(InferenceResponse.of([new Tensor('Y', 'UINT8', [8], new Uint8Array(8).fill(7))]))
  assert.equal((await pending).status, 200)
  assert.deepEqual([...fs.readFileSync(file).subarray(32, 40)], [7, 7, 7, 7, 7, 7, 7, 7])
  assert.deepEqual(registry.systemStatus(''), [])
})

test('a request that fails or is refused lets go of its regions', async () => {
  await register('r', new Uint8Array(64))
  const wrongShape = await send('POST', '/v2/models/same/infer', inferBody(9, place('r', 0, 8), place('r', 32, 8)))
  assert.equal(wrongShape.status, 400)
  const failing = send('POST', '/v2/models/slow/infer', inferBody(8, place('r', 0, 8), place('r', 32, 8)))
  held[0]?.respond(InferenceResponse.finalFlag())
  assert.equal((await failing).status, 500)
  registry.unregisterSystem('')
  assert.deepEqual(registry.systemStatus(''), [])
})

test('a client that goes away while its inputs are read is not executed and lets go of its regions', async () => {
  const size = 3 * 1024 * 1024
  await register('r', new Uint8Array(size))
  let disconnect = (): void => undefined
  const onStart = (request: { disconnect(): void }): void => {
    disconnect = () => request.disconnect()
  }
  void send('POST', '/v2/models/slow/infer', inferBody(size, place('r', 0, size)), { onStart })
  disconnect()
  registry.unregisterSystem('')
  await until(() => registry.systemStatus('').length === 0, 'the region to be given back')
  assert.equal(held.length, 0)
})

test('where the operator did not allow it, registering says which flag does and status still works', async () => {
  const closed = fixture.frontend
  for (const target of ['/v2/systemsharedmemory/region/r/register', '/v2/cudasharedmemory/unregister']) {
    const answer = await inject(closed, { method: 'POST', path: target, body: 'not json' })
    assert.equal(answer.status, 501)
    assert.equal(
      errorOf(answer),
      "Client shared memory is disabled. Start the server with '--allow-client-shared-memory=true' to enable.",
    )
  }
  const status = await inject(closed, { method: 'GET', path: '/v2/cudasharedmemory/status' })
  assert.equal(status.body.toString(), '[]')
})
