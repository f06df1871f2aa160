// One run of the add/sub model by each way there is, in one process and in turns, as ratios to the bare C call:
//   npx node bench/onnx-run.bench.ts [--rounds 7] [--runs 20000]

import * as ort from 'onnxruntime-node'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { PlaceByTime } from '../src/backends/onnx/execution-place.ts'
import { NativeBinding } from '../src/backends/onnx/native/native-binding.ts'
import { addressOf, cPath, cString, OrtLibrary } from '../src/backends/onnx/native/ort-library.ts'
import { OnnxInstance } from '../src/backends/onnx/onnx-instance.ts'
import type { RunResult } from '../src/backends/onnx/onnx-session.ts'
import { parseOnnxSettings, type Place } from '../src/backends/onnx/session-settings.ts'
import { SystemClock } from '../src/base/clock.ts'
import { Batch } from '../src/model/batch.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { emptyModelConfig } from '../src/config/model-config.ts'
import { Tensor } from '../src/tensor/tensor.ts'

const { values: flags } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, runs: { type: 'string', default: '20000' } },
})
const rounds = Number(flags.rounds)
const runs = Number(flags.runs)
const modelPath = path.join(import.meta.dirname, '../examples/models/simple/1/model.onnx')

type Subject = { readonly name: string; readonly once: () => void | Promise<void>; readonly share: number }

/** The C API with nothing of ours around it: what the other figures are compared to. */
function bareSubjects(library: OrtLibrary): Subject[] {
  const { functions } = library
  const kept: unknown[] = []
  const keep = <T>(value: T): T => {
    kept.push(value)
    return value
  }
  const pointers = (addresses: readonly number[]): number =>
    addressOf(keep(BigUint64Array.from(addresses, (address) => BigInt(address))))
  const environment = library.made((out) => functions.createEnv(4, 'bench', out))
  const options = library.made((out) => functions.createSessionOptions(out))
  const made = keep(new BigUint64Array(new ArrayBuffer(8)))
  const modelText = keep(cPath(modelPath))
  library.check(functions.createSession(environment, addressOf(modelText), options, addressOf(made)))
  const session = Number(made[0])
  const inputNames = pointers(['INPUT0', 'INPUT1'].map((name) => addressOf(keep(cString(name)))))
  const outputNames = pointers(['OUTPUT0', 'OUTPUT1'].map((name) => addressOf(keep(cString(name)))))
  const shape = addressOf(keep(BigInt64Array.of(1n, 16n)))
  const buffers = Array.from({ length: 4 }, () => keep(new Uint8Array(new ArrayBuffer(64))))
  const value = (i: number): number => library.createValue(buffers[i] as Uint8Array, shape, 2, 6)
  const inputs = keep(BigUint64Array.of(BigInt(value(0)), BigInt(value(1))))
  const outputs = keep(BigUint64Array.of(BigInt(value(2)), BigInt(value(3))))
  const [inputsAt, outputsAt] = [addressOf(inputs), addressOf(outputs)]
  const made4 = keep(new BigUint64Array(new ArrayBuffer(32)))
  const madeAt = addressOf(made4)
  const run = (from: number, to: number): void =>
    library.check(functions.run(session, 0, inputNames, from, 2, outputNames, 2, to))
  return [
    { name: 'bare C call, values kept', once: () => run(inputsAt, outputsAt), share: 1 },
    {
      name: 'C call, four values made and released per run',
      once: () => {
        for (let i = 0; i < 4; i++) made4[i] = BigInt(value(i))
        run(madeAt, madeAt + 16)
        for (let i = 0; i < 4; i++) library.releaseValue(Number(made4[i]))
      },
      share: 1,
    },
    {
      name: "koffi's asynchronous call, one at a time",
      once: () =>
        new Promise<void>((resolve, reject) => {
          const asynchronous = (functions.run as unknown as { async: (...values: unknown[]) => void }).async
          asynchronous(session, 0, inputNames, inputsAt, 2, outputNames, 2, outputsAt, (error: Error | null) =>
            error === null ? resolve() : reject(error),
          )
        }),
      share: 0.1,
    },
  ]
}

const newRequest = (): InferenceRequest =>
  new InferenceRequest({
    modelName: 'simple',
    inputs: [
      new Tensor('INPUT0', 'INT32', [1, 16], new Uint8Array(64)),
      new Tensor('INPUT1', 'INT32', [1, 16], new Uint8Array(64)),
    ],
    sink: (response) => response.release(),
  })

async function ourSubjects(clock: SystemClock, binding: NativeBinding): Promise<Subject[]> {
  const session = await binding.createSession(modelPath, parseOnnxSettings(emptyModelConfig()).session)
  const runner = session.createRunner()
  const inputs = [0, 1].map(() => ({ shape: [1, 16], bytes: new Uint8Array(64) }))
  const outputs = [0, 1]
  const take = (result: RunResult): void => {
    if (result.error !== null) throw result.error
    result.release?.()
  }
  const instance = (place: Place): OnnxInstance =>
    new OnnxInstance({
      clock,
      name: 'simple_0',
      modelName: 'simple',
      runner: session.createRunner(),
      place: new PlaceByTime(100, place),
      inputIndex: new Map([
        ['INPUT0', 0],
        ['INPUT1', 1],
      ]),
      layout: null,
      inputCount: 2,
      outputs: ['OUTPUT0', 'OUTPUT1'].map((name, sessionIndex) => ({ name, dataType: 'INT32', sessionIndex })),
      maxExecutionMs: 0,
    })
  const inline = instance('inline')
  const offloaded = instance('offloaded')
  const nothing = (): void => undefined
  return [
    { name: 'our runner, inline', once: () => runner.run({ inputs, outputs, place: 'inline' }, take), share: 1 },
    {
      name: 'request → Instance → response, inline',
      once: () => inline.execute(new Batch([newRequest()], 1, nothing)),
      share: 1,
    },
    {
      name: 'request → Instance → response, offloaded, one at a time',
      once: () => new Promise<void>((resolve) => offloaded.execute(new Batch([newRequest()], 1, resolve))),
      share: 0.1,
    },
  ]
}

async function javaScriptSubject(): Promise<Subject> {
  const session = await ort.InferenceSession.create(modelPath)
  const feeds = {
    INPUT0: new ort.Tensor('int32', new Int32Array(16), [1, 16]),
    INPUT1: new ort.Tensor('int32', new Int32Array(16), [1, 16]),
  }
  return { name: 'onnxruntime-node run()', once: async () => void (await session.run(feeds)), share: 0.2 }
}

type Sample = { readonly wallUs: number; readonly cpuUs: number }

/** CPU time counts all threads of the process, so a hop shows what it really costs. */
async function measure({ once, share }: Subject): Promise<Sample> {
  const count = Math.max(1, Math.round(runs * share))
  const cpu = process.cpuUsage()
  const started = performance.now()
  for (let i = 0; i < count; i++) {
    const pending = once()
    if (pending !== undefined) await pending
  }
  const wallUs = ((performance.now() - started) * 1000) / count
  const { user, system } = process.cpuUsage(cpu)
  return { wallUs, cpuUs: (user + system) / count }
}

const clock = new SystemClock()
const binding = NativeBinding.open(clock)
const subjects = [
  ...bareSubjects(binding.library),
  ...(await ourSubjects(clock, binding)),
  await javaScriptSubject(),
  {
    name: '(of it: making a request and a batch)',
    once: () => void new Batch([newRequest()], 1, () => undefined),
    share: 1,
  },
]
for (const subject of subjects) await measure(subject)
const samples = new Map(subjects.map((subject) => [subject, [] as Sample[]]))
for (let round = 0; round < rounds; round++) {
  for (const subject of subjects) samples.get(subject)?.push(await measure(subject))
}
// The best round: other work on the machine can only add to it.
const best = (values: readonly Sample[], field: keyof Sample): number =>
  Math.min(...values.map((value) => value[field]))
const bareUs = best(samples.get(subjects[0] as Subject) ?? [], 'cpuUs')
for (const [{ name }, values] of samples) {
  const [wallUs, cpuUs] = [best(values, 'wallUs'), best(values, 'cpuUs')]
  const figures = `${wallUs.toFixed(2).padStart(8)} µs wall ${cpuUs.toFixed(2).padStart(8)} µs CPU`
  console.log(`${name.padEnd(58)}${figures} ${(cpuUs / bareUs).toFixed(2).padStart(7)} ×`)
}
await binding.close()
process.exit(0)
