// Backends in C and C++, as they are made for Triton, in a real server: a backend that misbehaves costs its own model one clear error for
// each request that it held, and is back.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { buildBackend, whyNoNativeBackends } from '../fixtures/native/build-backend.ts'
import { until } from '../until.ts'
import { reportPythonChecks } from './python-checks.ts'
import { httpInfer, type InferAnswer } from './http-infer.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const whyNot = whyNoNativeBackends()

const config = (more = '', backend = 'wayward'): string => `backend: "${backend}"
input { name: "X" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }
${more}
`
const limit = (key: string, value: number): string => `parameters { key: "${key}" value { string_value: "${value}" } }`

/** For a machine with a GPU. Elsewhere a driver of the test gives out plain memory. */
const usesRealGpu = process.env['GALATEA_TEST_GPU'] === '1'
const fakeDriver = path.join(import.meta.dirname, '../fakes/fake-cuda.c')
const buildFakeDriver = (library: string): void => {
  assert.equal(spawnSync('cc', ['-shared', '-fPIC', '-o', library, fakeDriver]).status, 0, 'the driver of the test')
}

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
    hasCxx = buildBackend(path.join(folder, 'models/throwing'), 'throwing', [], 'c++')
    addModel('wayward', config('instance_group { count: 2 kind: KIND_CPU }'))
    addModel('other', config())
    addModel('hanging', config(limit('max_execution_ms', 300)))
    addModel('small', config(limit('max_memory_bytes', 200_000_000)))
    addModel('refused', config())
    buildBackend(path.join(folder, 'backends/common'), 'common')
    // The linker looks beside a backend first, so this is its driver where there is a real one, too.
    if (!usesRealGpu) buildFakeDriver(path.join(folder, 'backends/common/libcuda.so.1'))
    fs.mkdirSync(path.join(folder, 'backends/paired'))
    fs.copyFileSync(
      path.join(folder, 'backends/common/libtriton_common.so'),
      path.join(folder, 'backends/paired/libtriton_paired.so'),
    )
    for (const name of ['common1', 'common2', 'paired1', 'paired2']) addModel(name, config('', name.slice(0, -1)))
    addModel('streams', config('model_transaction_policy { decoupled: true }'))
    addModel(
      'sums',
      config(`sequence_batching { state { input_name: "IN_STATE" output_name: "OUT_STATE" data_type: TYPE_INT32 dims: 1
        initial_state { name: "zero" data_type: TYPE_INT32 dims: 1 zero_data: true } } }`),
    )
    addModel(
      'rounds',
      config('model_transaction_policy { decoupled: true } sequence_batching { iterative_sequence: true }'),
    )
    addModel('bare', 'backend: "wayward"\n')
    if (hasCxx) addModel('throwing', config('', 'throwing'))
    buildBackend(path.join(folder, 'models/calling'), 'calling', ['-DCALLS_MODELS'])
    addModel('calling', config('', 'calling'))
    server = await startServerProcess([
      `--model-repository=${path.join(folder, 'models')}`,
      `--backend-directory=${path.join(folder, 'backends')}`,
      '--backend-config=common,host=shared',
      '--backend-config=paired,host=device',
      '--backend-config=common,shm-max-byte-size=1048576',
      '--backend-config=common,cuda-memory-byte-size=1048576',
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

  test('refuses inputs and outputs beyond the limit of the memory that it shares with the server', async () => {
    const limit = '1048576 bytes of shared memory at once; the limit is --backend-config=common,shm-max-byte-size'
    const input = await ask('x'.repeat(2_000_000), 'common1')
    assert.ok(input.error.startsWith(`inputs of this model need more than ${limit}`), input.error)
    const output = await ask('big:2000000', 'common1')
    assert.ok(output.error.startsWith(`outputs of model 'common1' need more than ${limit}`), output.error)
    assert.equal(await say('big:900000', 'common1'), 'x'.repeat(900_000))
  })

  test('gets pinned memory and memory of a GPU, up to a limit, and the blocks that it gave back', async () => {
    for (let i = 0; i < 3; i++) assert.equal(await say('gpu:1000', 'common1'), 'through the GPU')
    assert.match(
      await say('gpu:2000000', 'common1'),
      /no GPU memory of device 0 for 2000000 bytes: the host has 4096, and may have 1048576/,
    )
    // Rounded up to whole blocks this number would be none at all.
    assert.match(await say('gpu:-1', 'common1'), /no GPU memory of device 0 for 18446744073709551615 bytes/)
    // The small block makes room for it.
    assert.equal(await say('gpu:1048576', 'common1'), 'through the GPU')
    assert.match(
      await say('gpu:1000', 'other'),
      /^(through the GPU|error: GPU memory is not available: this machine has no driver of NVIDIA)$/,
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

  test('that forgets a request is ended after max_execution_ms, too', async () => {
    const { error } = await ask('forget', 'hanging')
    assert.match(error, /execution took longer than max_execution_ms \(300\)/)
    await isBack('hanging')
  })

  test('can have all its models in one host, or those of one device', async () => {
    const models = ['common1', 'common2', 'paired1', 'paired2']
    const counts = await Promise.all(models.map((model) => say('count', model)))
    // Executions, instances initialized, instances finalized: of one copy of the library.
    assert.deepEqual(
      counts,
      models.map(() => '0 2 0'),
    )
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

  const reasonOf = async (model: string): Promise<string> => {
    const response = await fetch(`${server.url}/v2/repository/index`, { method: 'POST' })
    const index = (await response.json()) as { name: string; reason: string }[]
    return index.find(({ name }) => name === model)?.reason ?? ''
  }

  test('that needs functions which the host does not have is refused, with their names', async () => {
    assert.match(
      await reasonOf('calling'),
      /libtriton_calling\.so' needs \d+ functions of Triton's server .*TRITONSERVER_ServerInferAsync.*calling,tritonserver-library=/,
    )
  })

  const tritonServer = process.env['GALATEA_TRITON_SERVER'] ?? ''
  const whyNoServer = tritonServer === '' ? 'GALATEA_TRITON_SERVER names no libtritonserver.so' : false
  test("that calls other models runs in Triton's own server", { skip: whyNoServer }, async () => {
    await using calling = await startServerProcess([
      `--model-repository=${path.join(folder, 'models')}`,
      `--backend-directory=${path.join(folder, 'backends')}`,
      '--backend-config=calling,models=other',
      `--backend-config=calling,tritonserver-library=${tritonServer}`,
      '--model-control-mode=explicit',
      '--load-model=calling',
      '--log-verbose=1',
    ])
    const asked = async (text: string, parameters = {}): Promise<string> => {
      const body = { parameters, inputs: [{ name: 'X', datatype: 'BYTES', shape: [1], data: [text] }] }
      const address = `${calling.url}/v2/models/calling/infer`
      const answer = await fetch(address, { method: 'POST', body: JSON.stringify(body) })
      const {
        error,
        outputs,
        parameters: given,
      } = (await answer.json()) as {
        error?: string
        outputs?: { data: string[] }[]
        parameters?: object
      }
      return error ?? JSON.stringify([outputs?.[0]?.data[0], given])
    }
    assert.equal(await asked('call:other'), '["other said hello",null]')
    assert.match(await asked('call:nobody'), /unknown model: 'nobody'/)
    assert.equal(await asked('error'), 'wayward says no')
    assert.equal(await asked('big:100000'), JSON.stringify(['x'.repeat(100_000), null]))
    const parameters = { a: 1, b: 'c', d: 1.5, e: true }
    assert.equal(await asked('parameters', parameters), JSON.stringify(['', parameters]))
    const client = net.connect(calling.port, '127.0.0.1')
    const body = JSON.stringify({ inputs: [{ name: 'X', datatype: 'BYTES', shape: [1], data: ['cancel'] }] })
    client.write(
      `POST /v2/models/calling/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    await calling.said('wayward: waits for the cancellation')
    client.destroy()
    await calling.said('wayward: saw the cancellation')
    assert.match(await asked('segfault'), /SIGSEGV/)
    await until(async () => (await asked('hello')) === '["hello",null]', 'the model to be back')
    await fetch(`${calling.url}/v2/repository/models/calling/unload`, { method: 'POST' })
    await calling.said('objects alive')
    assert.doesNotMatch(calling.output, /objects alive: .*:[1-9]/)
  })

  test('is found by galatea check, in the folder of a model too', () => {
    const models = path.join(folder, 'models')
    const check = (...flags: string[]): string =>
      String(spawnSync(process.execPath, [path.join(projectRoot, 'bin/galatea.js'), 'check', models, ...flags]).stdout)
    assert.doesNotMatch(check(`--backend-directory=${path.join(folder, 'backends')}`), /unable to find backend/)
    const without = check()
    assert.match(without, /unable to find backend library for backend 'wayward'/)
    assert.doesNotMatch(without, /unable to find backend library for backend 'calling'/)
  })

  test('refuses a model with its own words', async () => {
    assert.match(await reasonOf('refused'), /wayward refuses this model/)
  })

  test('streams answers of a decoupled model, keeps implicit state, and tells times, to tritonclient', async (t) => {
    await reportPythonChecks(t, 'native_client.py', server.grpcAddress)
  })

  test('learns that a state has another name than those of the configuration, or that there are none', async () => {
    assert.equal(
      await say('state:NOPE'),
      "error: unable to add state 'NOPE'. State configuration is missing for model 'wayward'.",
    )
    const parameters = { sequence_id: 9, sequence_start: true, sequence_end: true }
    const inputs = [{ name: 'X', datatype: 'BYTES', shape: [1], data: ['state:NOPE'] }]
    const body = JSON.stringify({ parameters, inputs })
    const answer = await fetch(`${server.url}/v2/models/sums/infer`, { method: 'POST', body })
    assert.deepEqual(await answer.json(), { error: "state 'NOPE' is not a valid state name." })
  })

  test('gives a request back to be run again before it sends the answer of this round', async () => {
    const body = JSON.stringify({ X: 'rounds:3' })
    const response = await fetch(`${server.url}/v2/models/rounds/generate_stream`, { method: 'POST', body })
    const said = (await response.text()).match(/round \d/g)
    assert.deepEqual(said, ['round 1', 'round 2', 'round 3'])
  })

  test('that gives a request back to be run again is refused, where the model is not iterative, and answers itself', async () => {
    const reason = 'while the model is not configured to handle such a flag'
    assert.equal(
      await say('rounds:2'),
      `error: Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, ${reason}.`,
    )
  })

  test('waits for a client that does not read, and stops when the client leaves', async () => {
    const sent = async (): Promise<number> => {
      const body = JSON.stringify({ X: 'count' })
      const response = await fetch(`${server.url}/v2/models/streams/generate`, { method: 'POST', body })
      return Number(((await response.json()) as { OUT: string }).OUT.split(' ')[0])
    }
    const many = 2_000_000
    const body = JSON.stringify({ X: `stream:${many}` })
    const socket = net.connect(server.port, '127.0.0.1')
    socket.pause()
    socket.write(
      `POST /v2/models/streams/generate_stream HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    let last = 0
    await until(async () => {
      const before = last
      last = await sent()
      return last > 0 && last === before
    }, 'the backend to stand still')
    assert.ok(last < many, `${last} answers were sent to a client that reads none`)
    socket.destroy()
    await server.said('wayward: stream saw the cancellation')
  })

  test('has metrics on the page of the server', async () => {
    const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
    assert.match(page, /wayward_executions\{model="other"\} \d+/)
  })
})
