// Backends in C and C++, as they are made for Triton, in a real server: a backend that misbehaves costs its own model one clear error for
// each request that it held, and is back.

import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { buildBackend, whyNoNativeBackends } from '../fixtures/native/build-backend.ts'
import { until } from '../until.ts'
import { httpInfer, type InferAnswer } from './http-infer.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const whyNot = whyNoNativeBackends()

const config = (more = '', backend = 'wayward'): string => `backend: "${backend}"
input { name: "X" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }
${more}
`
const limit = (key: string, value: number): string => `parameters { key: "${key}" value { string_value: "${value}" } }`

describe('a native backend of our own', { skip: whyNot === '' ? false : whyNot }, () => {
  let folder: string
  let server: ServerProcess
  let hasCxx: boolean

  const addModel = (name: string, text: string): void => {
    fs.mkdirSync(path.join(folder, 'models', name, '1'), { recursive: true })
    fs.writeFileSync(path.join(folder, 'models', name, 'config.pbtxt'), text)
  }

  before(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-native-'))
    buildBackend(path.join(folder, 'backends/wayward'), 'wayward')
    hasCxx = buildBackend(path.join(folder, 'models/throwing'), 'throwing', true)
    addModel('wayward', config('instance_group { count: 2 kind: KIND_CPU }'))
    addModel('other', config())
    addModel('hanging', config(limit('max_execution_ms', 300)))
    addModel('small', config(limit('max_memory_bytes', 200_000_000)))
    addModel('refused', config())
    addModel('bare', 'backend: "wayward"\n')
    if (hasCxx) addModel('throwing', config('', 'throwing'))
    server = await startServerProcess([
      `--model-repository=${path.join(folder, 'models')}`,
      `--backend-directory=${path.join(folder, 'backends')}`,
      '--exit-on-error=false',
      '--strict-readiness=false',
      '--log-verbose=1',
    ])
  })
  after(async () => {
    await server?.stop()
    fs.rmSync(folder, { recursive: true, force: true })
  })

  const ask = (text: string, model = 'wayward'): Promise<InferAnswer> =>
    httpInfer(server.url, model, [{ name: 'X', datatype: 'BYTES', shape: [1], data: [text] }])
  const say = async (text: string, model = 'wayward'): Promise<string> => {
    const { error, outputs } = await ask(text, model)
    return error === '' ? String(outputs[0]?.data[0]) : `error: ${error}`
  }
  const isBack = async (model: string): Promise<void> => {
    await until(async () => (await say('hello', model)) === 'hello', `model '${model}' to be back`)
  }

  test('answers, with small and with large outputs', async () => {
    assert.equal(await say('hello'), 'hello')
    const large = await say('big:3000000')
    assert.equal(large, 'x'.repeat(3_000_000))
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => say(`n${i}`)))
    assert.deepEqual(
      answers,
      Array.from({ length: 50 }, (_, i) => `n${i}`),
    )
  })

  test('gives errors of its own as they are', async () => {
    assert.deepEqual(await ask('error'), { status: 400, outputs: [], error: 'wayward says no' })
    assert.deepEqual(await ask('refuse'), { status: 503, outputs: [], error: 'wayward refuses to execute' })
  })

  for (const [command, reason] of [
    ['segfault', /SIGSEGV/],
    ['abort', /SIGABRT/],
    ['exit', /code 3/],
  ] as const) {
    test(`that ends with its process (${command}) costs each request held one error, and is back`, async () => {
      const { status, error } = await ask(command)
      assert.match(error, reason)
      assert.equal(status, 503)
      assert.equal(await say('hello', 'other'), 'hello')
      await isBack('wayward')
    })
  }

  test('that loops for ever is ended after max_execution_ms', async () => {
    const { error } = await ask('loop', 'hanging')
    assert.match(error, /execution took longer than max_execution_ms \(300\)/)
    await isBack('hanging')
  })

  test('that throws a C++ exception costs one error, which says what was thrown', async (t) => {
    if (!hasCxx) {
      t.skip('there is no C++ compiler (c++)')
      return
    }
    assert.match((await ask('throw', 'throwing')).error, /SIGABRT: .*thrown by the backend/)
    await isBack('throwing')
  })

  test('that takes too much memory gets no more', async () => {
    assert.equal((await ask('memory', 'small')).error, 'no more memory')
  })

  const lies: readonly (readonly [command: string, error: RegExp])[] = [
    ['few bytes', /output 'OUT' of shape \[4\] and type INT32 8 bytes, but such a tensor has 16/],
    ['negative shape', /the shape \[-4\], which no tensor has/],
    ['huge shape', /the shape \[9223372036854775807\], which no tensor has/],
    [
      'huge buffer',
      /need more than 4294967296 bytes of shared memory at once; the limit is --backend-config=wayward,shm-max-byte-size/,
    ],
    ['no type', /the type 77, which is no type/],
    ['no strings', /16 bytes, which are not 1 strings with their lengths/],
    ['silent', /the backend released the request without a final response/],
  ]
  test('that lies about its outputs gets one clear error, and the model goes on', async () => {
    for (const [command, error] of lies) assert.match((await ask(command)).error, error, command)
    assert.equal(await say('hello'), 'hello')
  })

  test('that answers, sends or releases twice, or keeps its requests, harms nobody', async () => {
    assert.equal(await say('twice'), 'first')
    assert.equal(await say('resend'), 'once')
    assert.equal(await say('release twice'), 'release twice')
    assert.equal(await say('keep'), 'keep')
    assert.equal(await say('hello'), 'hello')
    await server.said('sent another response to a request after the final one')
  })

  test('reads parameters and the id of a request, and sets parameters of its response', async () => {
    const response = await fetch(`${server.url}/v2/models/wayward/infer`, {
      method: 'POST',
      body: JSON.stringify({
        id: 'seventeen',
        parameters: { text: 'a "quoted" one', whole: -5, flag: true, half: 0.5, two: 2 },
        inputs: [{ name: 'X', datatype: 'BYTES', shape: [1], data: ['parameters'] }],
      }),
    })
    const answer = (await response.json()) as { parameters: unknown; outputs: { data: string[] }[] }
    assert.deepEqual(answer.parameters, { text: 'a "quoted" one', whole: -5, flag: true, half: 0.5, two: 2 })
    assert.deepEqual(answer.outputs[0]?.data, ['seventeen'])
  })

  test('sees that a client has left', async () => {
    const leaving = new AbortController()
    const begun = server.output.split('waits for the cancellation').length
    const asked = fetch(`${server.url}/v2/models/wayward/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs: [{ name: 'X', datatype: 'BYTES', shape: [1], data: ['cancel'] }] }),
      signal: leaving.signal,
    })
    await server.said('waits for the cancellation', begun)
    leaving.abort()
    await assert.rejects(asked)
    await server.said('wayward: saw the cancellation')
  })

  test('completes the configuration of a model that has none', async () => {
    assert.equal(await say('hello', 'bare'), 'hello')
    const shown = (await (await fetch(`${server.url}/v2/models/bare/config`)).json()) as { input: unknown[] }
    assert.equal(shown.input.length, 1)
  })

  test('refuses a model with its own words', async () => {
    const response = await fetch(`${server.url}/v2/repository/index`, { method: 'POST' })
    const index = (await response.json()) as { name: string; reason: string }[]
    assert.match(index.find(({ name }) => name === 'refused')?.reason ?? '', /wayward refuses this model/)
  })

  test('has metrics on the page of the server', async () => {
    const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
    assert.match(page, /wayward_executions\{model="other"\} \d+/)
  })
})
