// The host of native backends, built with sanitizers: broken frames and wayward backends find no error in its memory, and all its objects
// are gone when a model is unloaded.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { HostProcess } from '../../src/backends/native/host-process.ts'
import { buildHost } from '../../src/backends/native/host-program.ts'
import { HostServices } from '../../src/backends/native/host-services.ts'
import { encodeExecute } from '../../src/backends/worker-process/execute-frame.ts'
import * as frames from '../../src/backends/worker-process/frames.ts'
import { TensorRegions } from '../../src/backends/worker-process/tensor-regions.ts'
import { SystemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { configMessage, emptyModelConfig } from '../../src/config/model-config.ts'
import { ModelSignature } from '../../src/config/model-signature.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import type { ModelServices } from '../../src/model/model-services.ts'
import { CustomMetricRegistry } from '../../src/telemetry/custom-metrics.ts'
import { tensorOfStrings } from '../../src/tensor/typed-values.ts'
import { buildBackend, whyNoNativeBackends } from '../fixtures/native/build-backend.ts'
import { until } from '../until.ts'
import { httpInfer } from './http-infer.ts'
import { projectRoot, startServerProcess } from './server-process.ts'

const sanitizers = ['-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', '-g', '-O1']

function whyNoSanitizers(): string {
  const why = whyNoNativeBackends()
  if (why !== '') return why
  const probe = path.join(os.tmpdir(), `galatea-probe-${process.pid}`)
  const { status } = spawnSync('cc', [...sanitizers, '-x', 'c', '-', '-o', probe], {
    input: 'int main(void){return 0;}',
  })
  fs.rmSync(probe, { force: true })
  return status === 0 ? '' : 'the C compiler has no AddressSanitizer'
}

test('the numbers of the wire format are the same in C and in TypeScript', () => {
  const text = fs.readFileSync(path.join(projectRoot, 'native/frames.h'), 'utf8')
  const defined = new Map(
    [...text.matchAll(/^#define (\w+) (\w+)$/gm)].map(([, name = '', value]) => [name, Number(value)]),
  )
  const upper = (name: string): string => name.replaceAll(/[A-Z]/g, '_$&').toUpperCase()
  const tables: readonly (readonly [prefix: string, numbers: Readonly<Record<string, number>>])[] = [
    ['TO', frames.toWorker],
    ['FROM', frames.fromWorker],
    ['REQUEST', frames.requestFlags],
    ['RESPONSE', frames.responseFlags],
    ['TIMED', frames.timedFlags],
    ['METRIC', Object.fromEntries(frames.metricOperations.map((name, i) => [name, i]))],
  ]
  let compared = 0
  for (const [prefix, numbers] of tables) {
    for (const [name, value] of Object.entries(numbers)) {
      const found = defined.get(`${prefix}_${upper(name)}`)
      if (found === undefined) continue
      assert.equal(found, value, `${prefix}_${upper(name)}`)
      compared++
    }
  }
  assert.ok(compared >= 30, `only ${compared}`)
  assert.equal(defined.get('HEADER_BYTES'), frames.headerBytes)
  assert.equal(defined.get('REQUEST_HEAD_BYTES'), frames.requestHeadBytes)
  assert.equal(defined.get('RESPONSE_HEAD_BYTES'), frames.responseHeadBytes)
  assert.equal(defined.get('TENSOR_HEAD_BYTES'), frames.tensorHeadBytes)
})

const whyNot = whyNoSanitizers()

describe('the host of native backends, with sanitizers', { skip: whyNot === '' ? false : whyNot }, () => {
  let folder: string
  let program: string

  before(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-native-host-'))
    program = path.join(folder, 'galatea-native-host')
    await buildHost(folder, sanitizers)
    buildBackend(path.join(folder, 'backends/wayward'), 'wayward')
  })
  after(() => fs.rmSync(folder, { recursive: true, force: true }))

  test('finds no error while a backend does everything wrong, and keeps no object after the unload', async () => {
    const config = `backend: "wayward"
input { name: "X" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }
instance_group { count: 2 kind: KIND_CPU }
`
    fs.mkdirSync(path.join(folder, 'models/wayward/1'), { recursive: true })
    fs.writeFileSync(path.join(folder, 'models/wayward/config.pbtxt'), config)
    await using server = await startServerProcess(
      [
        `--model-repository=${path.join(folder, 'models')}`,
        `--backend-directory=${path.join(folder, 'backends')}`,
        '--model-control-mode=explicit',
        '--load-model=wayward',
        '--log-verbose=1',
      ],
      { environment: { GALATEA_NATIVE_HOST: program } },
    )
    const commands = [
      'hello',
      'twice',
      'resend',
      'release twice',
      'few bytes',
      'negative shape',
      'huge shape',
      'huge buffer',
    ]
    commands.push('no type', 'no strings', 'silent', 'error', 'refuse', 'parameters', 'big:100000', 'big:3000000')
    for (const command of commands) {
      const ask = (): Promise<unknown> =>
        httpInfer(server.url, 'wayward', [{ name: 'X', datatype: 'BYTES', shape: [1], data: [command] }])
      await Promise.all(Array.from({ length: 8 }, ask))
    }
    await fetch(`${server.url}/v2/repository/models/wayward/unload`, { method: 'POST' })
    await server.said('objects alive', 2)
    assert.doesNotMatch(server.output, /AddressSanitizer|runtime error|worker ended/)
    const counts = [...server.output.matchAll(/objects alive: (\{.*\})/g)].at(-1)?.[1]?.replaceAll('\\', '') ?? ''
    const alive = Object.entries(JSON.parse(counts) as Record<string, number>).filter(([, count]) => count !== 0)
    assert.deepEqual(alive, [])
  })

  const signature = ((): ModelSignature => {
    const config = emptyModelConfig()
    config.input = [configMessage('ModelInput', { name: 'X', dataType: 'TYPE_STRING', dims: [1] })]
    config.output = [configMessage('ModelOutput', { name: 'OUT', dataType: 'TYPE_STRING', dims: [-1] })]
    return new ModelSignature(config)
  })()

  const services = { metrics: new CustomMetricRegistry(), encodeConfig: () => '{}' } as unknown as ModelServices

  /** The reason of the end of a host that gets the model's settings, and then these bytes. */
  async function endAfter(bytes: Buffer): Promise<string> {
    const limits = { initialBytes: 1 << 20, maxBytes: 1 << 24, inlineBytes: 64, maxBytesFlag: '' }
    const regions = TensorRegions.create(limits)
    const host = new HostProcess(new SystemClock(), new HostServices(silentLog, services), program, process.env)
    const { promise, resolve } = Promise.withResolvers<unknown>()
    let isReady = false
    const channel = host.openChannel(regions, {
      onFrame: (frame) => (isReady ||= frame.readUInt16LE(4) === frames.fromWorker.initialized),
      onLine: () => undefined,
      onExit: resolve,
    })
    const settings = {
      backend: { name: 'wayward', library: path.join(folder, 'backends/wayward/libtriton_wayward.so'), config: '{}' },
      model: { key: 'm', name: 'm', version: '1', directory: folder, config: '{}', inputs: ['X'], outputs: ['OUT'] },
      instance: { name: 'm_0', kind: 1 },
      sharedMemory: limits,
    }
    channel.send(frames.textFrame(frames.toWorker.initialize, 0, JSON.stringify(settings)))
    await until(() => isReady, 'the host to start')
    channel.send(bytes)
    channel.send(frames.emptyFrame(frames.toWorker.finalize))
    await promise
    // On a busy machine the end of the connection may be seen long before the end of the process, which says more.
    await until(() => host.exitReason !== null, 'the host to end')
    regions?.close()
    return host.exitReason ?? ''
  }

  test('ends when a backend keeps a hundred thousand requests', async () => {
    const request = new InferenceRequest({
      modelName: 'm',
      inputs: [tensorOfStrings('X', [1], ['keep'])],
      sink: () => undefined,
    })
    const requests = Array.from({ length: 50_001 }, () => request)
    const batch = (id: number, of = requests): Buffer =>
      encodeExecute(id, of, 1 + id * requests.length, signature, null).frame
    assert.match(
      await endAfter(Buffer.concat([batch(1), batch(2), batch(3, [request])])),
      /code 70: galatea-native-host: the backend of model 'm' holds 100002 requests and does not release them/,
    )
  })

  test('reads no byte outside of a frame, whatever the frame says', async () => {
    const request = new InferenceRequest({
      modelName: 'm',
      id: 'id',
      inputs: [tensorOfStrings('X', [1], ['hello']), tensorOfStrings('Y', [1], ['y'.repeat(100)])],
      parameters: new Map([['a', 1n]]),
      sink: () => undefined,
    })
    const { frame } = encodeExecute(1, [request, request], 1, signature, null)
    const change = fc.record({
      at: fc.integer({ min: 6, max: frame.length - 1 }),
      byte: fc.integer({ min: 0, max: 255 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), async (changes) => {
        const broken = Buffer.from(frame)
        for (const { at, byte } of changes) broken[at] = byte
        // 70: the host refuses the frame. 0: it could be read.
        assert.match(await endAfter(broken), /^it exited with code (0|70)\b/)
      }),
      { numRuns: 30 },
    )
  })
})
