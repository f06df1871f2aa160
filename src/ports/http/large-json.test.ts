import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'

import { startHttpFixture, type HttpFixture } from '../../../test/conformance/http-fixture.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { inject, type InjectedAnswer, type InjectedInit } from '../../../test/fakes/injected-request.ts'
import { copyOutputs, isLargeAnswer, isLargeListAnswer } from './large-json.ts'
import { until } from '../../../test/until.ts'

const xy = (extra = ''): string =>
  `input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] ${extra} } output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }`
const held: InferenceRequest[] = []
let releasedCount = 0

let fixture: HttpFixture
before(async () => {
  fixture = await startHttpFixture(
    {},
    {
      same: {
        config: xy(),
        run: (request) => {
          const { shape, bytes } = request.inputs[0] as Tensor
          // Borrowed memory: unreadable after its release, like a native buffer that has gone back.
          const borrowed = new Uint8Array(bytes)
          const release = (): void => {
            releasedCount++
            borrowed.fill(0xff)
          }
          request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', shape, borrowed)], { release }))
        },
      },
      words: { config: xy().replaceAll('INT32', 'STRING') },
      talk: {
        config: xy().replaceAll('INT32', 'STRING').replaceAll('-1', '1'),
        run: (request) => {
          const { bytes } = request.inputs[0] as Tensor
          request.respond(InferenceResponse.of([new Tensor('Y', 'BYTES', [1], bytes)]))
        },
      },
      slow: { config: xy(), run: (request) => void held.push(request) },
    },
  )
})
after(() => fixture.close())

const count = 200_000
const numbers = Array.from({ length: count }, (_, i) => (i * 7919) % 1_000_003)
const largeBody = (extra = ''): string =>
  `{"inputs":[{"name":"X","datatype":"INT32","shape":[${count}],"data":[${numbers.join(',')}]}]${extra}}`

const infer = (model: string, body: string | Buffer, init: Partial<InjectedInit> = {}): Promise<InjectedAnswer> =>
  inject(fixture.frontend, { method: 'POST', path: `/v2/models/${model}/infer`, body, ...init })
const valuesOf = (answer: InjectedAnswer): number[] =>
  (JSON.parse(answer.body.toString()) as { outputs: { data: number[] }[] }).outputs[0]?.data ?? []
const errorOf = (answer: InjectedAnswer): string => (JSON.parse(answer.body.toString()) as { error: string }).error

test('a large JSON request gets a large JSON answer, and the memory of the outputs goes back once', async () => {
  releasedCount = 0
  const answer = await infer('same', largeBody())
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['content-type'], 'application/json')
  assert.deepEqual(valuesOf(answer), numbers)
  assert.equal(releasedCount, 1)
})

test('a large JSON request may come compressed and ask for a compressed or a binary answer', async () => {
  const compressed = await infer('same', gzipSync(largeBody()), { headers: [['Content-Encoding', 'gzip']] })
  assert.deepEqual(valuesOf(compressed), numbers)
  const binary = await infer('same', largeBody(',"outputs":[{"name":"Y","parameters":{"binary_data":true}}]'))
  const head = Number(binary.headers['inference-header-content-length'])
  const bytes = new Uint8Array(binary.body.subarray(head))
  assert.deepEqual([...new Int32Array(bytes.buffer)], numbers)
})

test('binary tensors behind a large JSON head arrive with it', async () => {
  const tensor = Buffer.from(Int32Array.from([1, 2, 3]).buffer)
  const padding = ' '.repeat(300_000)
  const head = `{${padding}"inputs":[{"name":"X","datatype":"INT32","shape":[3],"parameters":{"binary_data_size":12}}]}`
  const headers: [string, string][] = [['Inference-Header-Content-Length', String(head.length)]]
  const answer = await infer('same', Buffer.concat([Buffer.from(head), tensor]), { headers })
  assert.deepEqual(valuesOf(answer), [1, 2, 3])
})

test('a large request may have small inputs, and a large answer small outputs', async () => {
  const data = JSON.stringify({
    inputs: [
      { name: 'IN_INT32', datatype: 'INT32', shape: [count], data: numbers },
      { name: 'IN_INT8', datatype: 'INT8', shape: [2], data: [1, -1] },
      { name: 'IN_BYTES', datatype: 'BYTES', shape: [1], data: ['word'] },
    ],
    outputs: ['OUT_INT32', 'OUT_INT8', 'OUT_BYTES'].map((name) => ({ name })),
  })
  const answer = await infer('echo', data)
  assert.equal(answer.status, 200, answer.body.toString().slice(0, 200))
  const { outputs } = JSON.parse(answer.body.toString()) as { outputs: { name: string; data: unknown[] }[] }
  const found = new Map(outputs.map((output) => [output.name, output.data]))
  assert.deepEqual(found.get('OUT_INT32'), numbers)
  assert.deepEqual(found.get('OUT_INT8'), [1, -1])
  assert.deepEqual(found.get('OUT_BYTES'), ['word'])
})

test('ranking a large output gives a short answer', async () => {
  const outputs = ',"outputs":[{"name":"Y","parameters":{"classification":2}}]'
  const answer = await infer('same', largeBody(outputs))
  const best = numbers.reduce((a, b) => Math.max(a, b))
  assert.equal(answer.status, 200, answer.body.toString().slice(0, 200))
  assert.equal(String(valuesOf(answer)[0]), `${best}:${numbers.indexOf(best)}`)
})

test('a small request that comes after a large one is answered before it', async () => {
  const order: string[] = []
  const large = infer('same', largeBody()).then(() => order.push('large'))
  const small = infer('same', '{"inputs":[{"name":"X","datatype":"INT32","shape":[1],"data":[1]}]}').then(() =>
    order.push('small'),
  )
  await Promise.all([large, small])
  assert.deepEqual(order, ['small', 'large'])
})

test('an error in a large JSON request has the code, the text and the type of one in a small request', async () => {
  const cut = await infer('same', largeBody().slice(0, -3))
  const smallCut = await infer('same', '{"inputs":[')
  assert.equal(cut.status, smallCut.status)
  assert.equal(cut.headers['content-type'], smallCut.headers['content-type'])
  assert.match(errorOf(cut), /^failed to parse the request JSON buffer: /)
  const wrongShape = await infer('same', largeBody().replace(String(count), '5'))
  assert.equal(wrongShape.status, 500)
  assert.equal(errorOf(wrongShape), "Unable to parse 'data': Shape does not match true shape of 'data' field")
})

test('an input of very many strings is refused like a short one when one is missing', async () => {
  const head = (size: number): string =>
    `{"inputs":[{"name":"X","datatype":"BYTES","shape":[${size / 4 + 1}],"parameters":{"binary_data_size":${size}}}]}`
  const send = (size: number): Promise<InjectedAnswer> =>
    infer('words', Buffer.concat([Buffer.from(head(size)), Buffer.alloc(size)]), {
      headers: [['Inference-Header-Content-Length', String(head(size).length)]],
    })
  const [short, long] = [await send(4), await send(8_000_000)]
  assert.equal(long.status, short.status)
  assert.equal(long.headers['content-type'], short.headers['content-type'])
  assert.match(errorOf(long), /expected 2000001 string elements for inference input 'X' .*, got 2000000$/)
})

test('a client that goes away while its large request is read is never executed', async () => {
  held.length = 0
  let disconnect = (): void => undefined
  void infer('slow', largeBody(), { onStart: (request) => (disconnect = () => request.disconnect()) })
  disconnect()
  // The next large request goes the same way behind it.
  const second = infer('slow', largeBody(',"id":"second"'))
  await until(() => held.length, 'a request in the model')
  assert.deepEqual(
    held.map((request) => request.id),
    ['second'],
  )
  const request = held[0] as InferenceRequest
  request.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1], new Uint8Array(4))]))
  assert.equal((await second).status, 200)
})

test('a large request that came before the server exits is still answered', async () => {
  const ending = await startHttpFixture({}, { words: { config: xy(), run: (request) => void held.push(request) } })
  held.length = 0
  const answer = inject(ending.frontend, { method: 'POST', path: '/v2/models/words/infer', body: largeBody() })
  ending.engine.beginExit()
  const closed = ending.engine.close(60_000)
  await until(() => held.length, 'a request in the model')
  held[0]?.respond(InferenceResponse.of([new Tensor('Y', 'INT32', [1], new Uint8Array(4))]))
  assert.equal((await answer).status, 200)
  assert.equal(await closed, true)
  await ending.frontend.close()
})

test('a large generate request is read like a small one, result and errors', async () => {
  const text = 'y'.repeat(400_000)
  const generate = (body: object): Promise<InjectedAnswer> =>
    inject(fixture.frontend, { method: 'POST', path: '/v2/models/talk/generate', body: JSON.stringify(body) })
  const answer = await generate({ X: text, id: 'long' })
  assert.equal(answer.status, 200, answer.body.toString().slice(0, 200))
  assert.equal((JSON.parse(answer.body.toString()) as { Y: string }).Y, text)
  const [small, large] = [await generate({ X: [1] }), await generate({ X: [1], ignored: text })]
  assert.equal(errorOf(large), errorOf(small))
  assert.equal(large.status, small.status)
})

test('large answers of generate and its stream are what small ones are', async () => {
  const text = 'z'.repeat(300_000)
  const body = JSON.stringify({ X: text })
  const path = '/v2/models/talk'
  const once = await inject(fixture.frontend, { method: 'POST', path: `${path}/generate`, body })
  assert.equal((JSON.parse(once.body.toString()) as { Y: string }).Y, text)
  const events = await inject(fixture.frontend, { method: 'POST', path: `${path}/generate_stream`, body })
  assert.equal((JSON.parse(events.body.toString().slice('data: '.length)) as { Y: string }).Y, text)
})

test('endpoints that take neither tensors nor models refuse a large body unread', async () => {
  const body = ' '.repeat(2 * 1024 * 1024)
  for (const path of ['/v2/repository/index', '/v2/logging', '/v2/systemsharedmemory/region/r/register']) {
    const answer = await inject(fixture.frontend, { method: 'POST', path, body })
    assert.equal(answer.status, 400, path)
    assert.equal(
      errorOf(answer),
      'request body of 2097152 bytes exceeds the maximum of 1048576 bytes for this endpoint',
    )
  }
})

test('an answer is large by what is printed of it: not by binary outputs, nor by those in shared memory', () => {
  const signature = fixture.engine.findVersion('same', '').signature
  const tensor = new Tensor('Y', 'FP32', [65536], new Uint8Array(262_144))
  const base = { modelName: 'same', modelVersion: '1', id: '', signature, outputs: [], binaryOutputDefault: false }
  const selection = { name: 'Y', isBinary: false, classificationCount: 0, sharedMemory: null }
  assert.equal(isLargeAnswer([tensor], base), true)
  assert.equal(isLargeAnswer([tensor], { ...base, binaryOutputDefault: true }), false)
  assert.equal(isLargeAnswer([tensor], { ...base, outputs: [{ ...selection, isBinary: true }] }), false)
  assert.equal(isLargeAnswer([tensor], { ...base, outputs: [{ ...selection, name: 'other' }] }), false)
  const sharedMemory = { region: 'r', offset: 0n, byteSize: 262_144n }
  assert.equal(isLargeAnswer([tensor], { ...base, outputs: [{ ...selection, sharedMemory }] }), false)
})

test('a nested answer is large by its lists, also where they are empty', () => {
  const signature = fixture.engine.findVersion('same', '').signature
  const context = { signature, outputs: [], binaryOutputDefault: false }
  const isLarge = (shape: readonly number[]): boolean =>
    isLargeListAnswer([new Tensor('Y', 'FP32', shape, new Uint8Array(0))], context, 1000)
  assert.deepEqual([isLarge([1000, 0]), isLarge([1001, 0]), isLarge([40, 40, 0, 9])], [false, true, true])
})

test('ranking thousands of classes makes a small output a large answer, ranking a few does not', () => {
  const signature = fixture.engine.findVersion('same', '').signature
  const tensor = new Tensor('Y', 'INT8', [8192], new Uint8Array(8192))
  const context = (classificationCount: number) => ({
    modelName: 'same',
    modelVersion: '1',
    id: '',
    signature,
    binaryOutputDefault: false,
    outputs: [{ name: 'Y', isBinary: false, classificationCount, sharedMemory: null }],
  })
  assert.equal(isLargeAnswer([tensor], context(5)), false)
  assert.equal(isLargeAnswer([tensor], context(8192)), true)
})

test('copying outputs larger than one slice lets others run in between and copies every byte', async () => {
  const signature = fixture.engine.findVersion('same', '').signature
  const source = Buffer.alloc(20 * 1024 * 1024, 'galatea')
  const context = { modelName: 'm', modelVersion: '1', id: '', signature, outputs: [], binaryOutputDefault: false }
  let isDone = false
  const copied = new Promise<Tensor[]>((resolve) =>
    copyOutputs(
      [new Tensor('A', 'UINT8', [3], source.subarray(0, 3)), new Tensor('B', 'UINT8', [1], source)],
      context,
      (copies) => {
        isDone = true
        resolve(copies)
      },
    ),
  )
  assert.equal(isDone, false)
  const [a, b] = await copied
  assert.equal(Buffer.compare(a?.bytes ?? source, source.subarray(0, 3)), 0)
  assert.equal(Buffer.compare(b?.bytes ?? source.subarray(1), source), 0)
})
