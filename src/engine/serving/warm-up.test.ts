import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Instance } from '../../model/backend.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import {
  configMessage,
  emptyModelConfig,
  type ModelInput,
  type ModelWarmup,
  type ModelWarmupInput,
} from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { warmUp } from './warm-up.ts'

type Setting = Partial<ModelWarmup> & { x?: Partial<ModelWarmupInput> }

/** Of every execution: the shapes and the first bytes of its requests. */
async function warmedUp(
  settings: readonly Setting[],
  options: {
    dims?: number[]
    maxBatchSize?: number
    type?: ModelInput['dataType']
    failure?: string
    files?: string
  } = {},
) {
  const config = emptyModelConfig()
  config.name = 'm'
  config.maxBatchSize = options.maxBatchSize ?? 4
  const dataType = options.type ?? 'TYPE_INT32'
  config.input = [configMessage('ModelInput', { name: 'X', dataType, dims: options.dims ?? [2] })]
  config.modelWarmup = settings.map(({ x, ...setting }) =>
    configMessage('ModelWarmup', {
      name: 's',
      batchSize: 1,
      inputs: new Map([['X', configMessage('ModelWarmup.Input', { dataType, dims: [2], ...x })]]),
      ...setting,
    }),
  )
  const runs: string[] = []
  const bytes: Uint8Array[] = []
  const instance = (name: string): Instance => ({
    name,
    isReady: true,
    execute: (batch) => {
      runs.push(`${name} ${batch.requests.map((request) => `[${request.inputs[0]?.shape.join()}]`).join('')}`)
      for (const request of batch.requests) {
        bytes.push(request.inputs[0]?.bytes ?? new Uint8Array(0))
        if (options.failure === undefined) request.respond(InferenceResponse.of([]))
        else request.fail(new ServerError('INTERNAL', options.failure))
      }
      batch.executed()
    },
    close: () => Promise.resolve(),
  })
  const modelDirectory = options.files ?? '/nowhere'
  const source = { config, signature: new ModelSignature(config), modelDirectory }
  const log = new MemoryLog()
  const outcome = await warmUp(log, source, [instance('a'), instance('b')]).then(
    () => 'warm',
    (reason: unknown) => (reason instanceof ServerError ? `${reason.code} ${reason.message}` : String(reason)),
  )
  return { outcome, runs, bytes, log }
}

test('every instance runs every sample, as requests of one row, as often as it says', async () => {
  const { outcome, runs } = await warmedUp([
    { batchSize: 3, count: 2, x: { zeroData: true } },
    { batchSize: 0, x: { zeroData: true } },
    { x: { randomData: true } },
  ])
  assert.equal(outcome, 'warm')
  for (const name of ['a', 'b']) {
    const own = runs.filter((run) => run.startsWith(name))
    assert.deepEqual(own, [`${name} [1,2][1,2][1,2]`, `${name} [1,2][1,2][1,2]`, `${name} [1,2]`])
  }
})

test('the verbose log names every run, as Triton does', async () => {
  const { log } = await warmedUp([{ name: 'big', count: 2, x: { zeroData: true } }])
  const lines = log.entries.filter(({ level }) => level === 'verbose').map(({ message }) => message)
  assert.deepEqual(
    lines.filter((line) => line.includes('instance a')),
    [1, 2].map((run) => `model 'm' instance a is running warmup sample 'big' for iteration ${run}`),
  )
  assert.equal(lines.length, 4)
})

test('others have their turn between the runs of an instance that answers at once, and while random data is made', async () => {
  let turns = 0
  let isDone = false
  const count = (): void => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await warmedUp([{ count: 50, x: { zeroData: true } }])
  assert.ok(turns >= 50, `${turns} turns`)
  turns = 0
  await warmedUp([{ x: { randomData: true, dims: [2 ** 22] } }], { dims: [2 ** 22] })
  isDone = true
  assert.ok(turns >= 15, `${turns} turns`)
})

test('a model without a batch dimension gets one request', async () => {
  const { runs } = await warmedUp([{ batchSize: 3, x: { zeroData: true } }], { maxBatchSize: 0 })
  assert.deepEqual(runs, ['a [2]', 'b [2]'])
})

test('zeros are zeros, random strings are empty ones, random booleans are 0 or 1', async () => {
  const zero = await warmedUp([{ x: { zeroData: true } }])
  assert.deepEqual(zero.bytes[0], new Uint8Array(8))
  const strings = await warmedUp([{ x: { randomData: true } }], { type: 'TYPE_STRING' })
  assert.deepEqual(strings.bytes[0], new Uint8Array(8))
  const booleans = await warmedUp([{ x: { randomData: true, dims: [200] } }], { type: 'TYPE_BOOL', dims: [200] })
  assert.deepEqual(new Set(booleans.bytes[0]), new Set([0, 1]))
})

test('a sample has at most a million strings', async () => {
  const dims = [1_000_001]
  for (const x of [
    { zeroData: true, dims },
    { randomData: true, dims },
  ]) {
    const { outcome, runs } = await warmedUp([{ x }], { type: 'TYPE_STRING', dims })
    assert.match(outcome, /'X' has 1000001 strings, more than 1000000/)
    assert.deepEqual(runs, [])
  }
})

test('data comes from a file of the folder warmup', async (t) => {
  const files = await mkdtemp(join(tmpdir(), 'warm-up-'))
  t.after(() => rm(files, { recursive: true }))
  await mkdir(join(files, 'warmup'))
  await writeFile(join(files, 'warmup/long'), Buffer.from([1, 0, 0, 0, 2, 0, 0, 0, 9]))
  await writeFile(join(files, 'warmup/short'), 'abc')
  const from = (inputDataFile: string) => warmedUp([{ x: { inputDataFile } }], { files })
  assert.deepEqual([...((await from('long')).bytes[0] ?? [])], [1, 0, 0, 0, 2, 0, 0, 0])
  const short = await from('short')
  assert.equal(
    short.outcome,
    'INVALID_ARG [request id: <id_unknown>] warmup setting expects 8 bytes, but the data provided from short only has 3 bytes',
  )
  assert.match(
    (await from('none')).outcome,
    /^INTERNAL failed to open text file for read .*\/warmup\/none: No such file/,
  )
  assert.match((await from('../../x')).outcome, /^INVALID_ARG path .* leads out of/)
})

test('a sample of which no request can be made is refused before anything runs', async () => {
  const refused: [Setting, RegExp, { dims?: number[] }?][] = [
    [
      { x: {} },
      /^INVALID_ARG \[request id: <id_unknown>\] warmup setting expects input 'X' to have input_data_type set$/,
    ],
    [{ x: { dataType: 'TYPE_INVALID' } }, /warmup setting expects input 'X' to have input_data_type set$/],
    [
      { x: { zeroData: true, dims: [-1] } },
      /all variable-size dimensions are specified for input 'X'$/,
      { dims: [-1] },
    ],
    [
      { x: { zeroData: true, dims: [5] } },
      /unexpected shape for input 'X' for model 'm'\. Expected \[-1,2\], got \[1,5\]/,
    ],
    [{ x: { zeroData: true, dataType: 'TYPE_FP32' } }, /data-type is 'FP32', but model 'm' expects 'INT32'$/],
    [{ x: { zeroData: true, dataType: 'TYPE_INVALID' } }, /data-type is '<invalid>', but model 'm' expects 'INT32'$/],
    [
      { batchSize: 9, x: { zeroData: true } },
      /failed to run warmup sample 's': batch size 9 for 'm', max allowed is 4; $/,
    ],
  ]
  for (const [setting, text, options] of refused) {
    const { outcome, runs } = await warmedUp([setting], options)
    assert.match(outcome, text)
    assert.deepEqual(runs, [])
  }
})

test('a sample that fails names itself and every reason', async () => {
  const { outcome } = await warmedUp([{ batchSize: 2, x: { zeroData: true } }], { failure: 'boom' })
  assert.equal(outcome, "INVALID_ARG failed to run warmup sample 's': boom; boom; ")
})

test('inputs that the model does not have are left out, as Triton passes over them', async () => {
  const input = (): ModelWarmupInput =>
    configMessage('ModelWarmup.Input', { dataType: 'TYPE_INT32', dims: [2], zeroData: true })
  const { runs } = await warmedUp([{ inputs: new Map([['Y', input()], ['X', input()]]) }]) // prettier-ignore
  assert.deepEqual(runs, ['a [1,2]', 'b [1,2]'])
  const { outcome } = await warmedUp([{ inputs: new Map([['Y', input()]]) }])
  assert.match(
    outcome,
    /^INVALID_ARG .*expected 1 inputs but got 0 inputs for model 'm'\. Got input\(s\) \[\], but missing required input\(s\) \['X'\]/,
  )
})
