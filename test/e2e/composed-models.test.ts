// Ensembles and sequences over real backends, in this process: the examples of the guides, and an ONNX model with state.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import test from 'node:test'
import { createEngine, type EmbeddedEngine } from '../../src/embedded-engine.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { numbersOf } from '../../src/tensor/typed-values.ts'
import { buildOnnx } from '../fixtures/onnx/build-onnx.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'

/** The files that a guide shows: each block begins with a comment that names one. */
function filesOf(guide: string): Record<string, string> {
  const text = readFileSync(path.join(import.meta.dirname, '../../docs/guide', guide), 'utf8')
  const blocks = [...text.matchAll(/```\w+\n(?:#|\/\/) models\/(\S+)[^\n]*\n([\s\S]*?)```/g)]
  assert.ok(blocks.length > 0)
  return Object.fromEntries(blocks.map(([, file = '', content = '']) => [file, content]))
}

type Ask = { readonly id: bigint | string; readonly x: number; readonly flags?: 'start' | 'end' | 'both' }

/** One request of a sequence; the number that comes back as `output`. */
function ask(engine: EmbeddedEngine, model: string, output: string, { id, x, flags }: Ask): Promise<number> {
  const { signature } = engine.engine.findVersion(model, '')
  const isFloat = signature.inputs[0]?.dataType === 'FP32'
  const bytes = new Uint8Array((isFloat ? Float32Array.of(x) : Int32Array.of(x)).buffer)
  const shape = signature.isBatching ? [1, 1] : [1]
  return new Promise((resolve, reject) => {
    const request = new InferenceRequest({
      modelName: model,
      inputs: [new Tensor('X', isFloat ? 'FP32' : 'INT32', shape, bytes)],
      correlationId: id,
      isSequenceStart: flags === 'start' || flags === 'both',
      isSequenceEnd: flags === 'end' || flags === 'both',
      sink: (response) => {
        const names = response.outputs.map(({ name }) => name)
        const found = response.outputs.find(({ name }) => name === output)
        const value = found === undefined ? null : Number(numbersOf(found)[0])
        response.release()
        if (response.error !== null) reject(response.error)
        else if (value === null || names.length !== 1) reject(new Error(`got ${names.join()}`))
        else resolve(value)
      },
    })
    engine.engine.inferByName(request)
  })
}

test('the ensemble of the guide answers as the guide says', async (context) => {
  const { root, remove } = await temporaryRepository({ ...filesOf('ensembles.md'), 'pipeline/1/': '' })
  const engine = await createEngine({ modelRepository: root })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  const whole = await engine.infer('pipeline', { TEXT: ['To be, or not to be'] })
  assert.deepEqual(whole.outputs['WORDS']?.data, ['to', 'be', 'or', 'not', 'to', 'be'])
  assert.deepEqual([...(whole.outputs['COUNT']?.data ?? [])], [4])
  const part = await engine.infer('pipeline', { TEXT: ['a b a'] }, { outputs: ['COUNT'] })
  assert.deepEqual(Object.keys(part.outputs), ['COUNT'])
})

test('the sequences of the guide add up, each by itself', async (context) => {
  const { root, remove } = await temporaryRepository(filesOf('sequences.md'))
  const engine = await createEngine({ modelRepository: root })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  const tally = (request: Ask): Promise<number> => ask(engine, 'tally', 'SUM', request)
  const [first, other] = await Promise.all([
    tally({ id: 42n, x: 5, flags: 'start' }),
    tally({ id: 'other', x: 100, flags: 'start' }),
  ])
  assert.deepEqual([first, other], [5, 100])
  assert.equal(await tally({ id: 42n, x: 6 }), 11)
  assert.equal(await tally({ id: 'other', x: 1, flags: 'end' }), 101)
  assert.equal(await tally({ id: 42n, x: 7, flags: 'end' }), 18)
  await assert.rejects(tally({ id: 42n, x: 8 }), /must specify the START flag/)
})

test('the iterative model of the guide gets a request back until it is done, its state with it', async (context) => {
  const { root, remove } = await temporaryRepository(filesOf('sequences.md'))
  const engine = await createEngine({ modelRepository: root })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  const steps = await Promise.all(
    [27n, 1n, 6n].map(async (n) => {
      const { outputs } = await engine.infer('collatz', { N: { data: BigInt64Array.of(n), shape: [1, 1] } })
      return outputs['STEPS']?.data[0]
    }),
  )
  assert.deepEqual(steps.map(Number), [111, 0, 8])
})

test('an iterative decoupled model answers between its iterations and carries its state', async (context) => {
  const { root, remove } = await temporaryRepository({
    'countdown/config.pbtxt': `
      backend: "typescript"
      input { name: "N" data_type: TYPE_INT32 dims: 1 }
      output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
      model_transaction_policy { decoupled: true }
      model_warmup {
        name: "nothing" batch_size: 1
        inputs { key: "N" value { data_type: TYPE_INT32 dims: 1 zero_data: true } }
      }
      sequence_batching {
        iterative_sequence: true
        state { input_name: "DONE" output_name: "DONE_OUT" data_type: TYPE_INT32 dims: 1 }
      }
    `,
    'countdown/1/model.ts': `
      import { reschedule, tensor } from 'galatea/model'
      export async function* infer(request) {
        const [n = 0] = request.input('N').asInt32()
        const [done = 0] = request.input('DONE').asInt32()
        yield [tensor('OUT', 'INT32', [1], [done])]
        if (n === 0 || done + 1 < n) yield reschedule([tensor('DONE_OUT', 'INT32', [1], [done + 1])])
      }
    `,
  })
  const engine = await createEngine({ modelRepository: root })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  const streamed = async (n: number): Promise<number[]> => {
    const values: number[] = []
    for await (const { outputs } of engine.inferStream('countdown', { N: Int32Array.of(n) })) {
      values.push(Number(outputs['OUT']?.data[0]))
    }
    return values
  }
  assert.deepEqual(await Promise.all([streamed(4), streamed(1), streamed(3)]), [[0, 1, 2, 3], [0], [0, 1, 2]])
})

test('an ONNX model keeps its state through batches of several sequences', async (context) => {
  const { root, remove } = await temporaryRepository({
    'running/config.pbtxt': `
      backend: "onnxruntime" max_batch_size: 4
      input { name: "X" data_type: TYPE_FP32 dims: 1 }
      output { name: "Y" data_type: TYPE_FP32 dims: 1 }
      instance_group { kind: KIND_CPU count: 1 }
      model_warmup {
        name: "all slots" batch_size: 4
        inputs { key: "X" value { data_type: TYPE_FP32 dims: 1 random_data: true } }
      }
      sequence_batching {
        direct { }
        control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } }
        state { input_name: "S" output_name: "S_OUT" data_type: TYPE_FP32 dims: 1 }
      }
    `,
  })
  // Y = X × READY + S, and S_OUT = Y: a place without a request must not disturb the others.
  const value = (name: string) => ({ name, type: 'FP32', shape: ['batch', 1] }) as const
  const model = buildOnnx({
    inputs: [value('X'), value('READY'), value('S')],
    outputs: [value('Y'), value('S_OUT')],
    nodes: [
      { op: 'Mul', inputs: ['X', 'READY'], outputs: ['XR'] },
      { op: 'Add', inputs: ['XR', 'S'], outputs: ['Y'] },
      { op: 'Identity', inputs: ['Y'], outputs: ['S_OUT'] },
    ],
  })
  await mkdir(path.join(root, 'running/1'))
  await writeFile(path.join(root, 'running/1/model.onnx'), model)
  const engine = await createEngine({ modelRepository: root })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  assert.deepEqual(
    engine.index().map(({ reason }) => reason),
    [''],
  )
  const ids = [1n, 2n, 3n, 4n]
  const sums = new Map(ids.map((id) => [id, 0]))
  for (let round = 0; round < 20; round++) {
    const flags = round === 0 ? 'start' : round === 19 ? 'end' : undefined
    // Another subset each time, so that slots are empty in between.
    const now = flags === undefined ? ids.filter((id) => (round + Number(id)) % 3 !== 0) : ids
    const answers = await Promise.all(
      now.map((id) =>
        ask(engine, 'running', 'Y', { id, x: round + Number(id), ...(flags === undefined ? {} : { flags }) }),
      ),
    )
    for (const id of now) sums.set(id, (sums.get(id) ?? 0) + round + Number(id))
    assert.deepEqual(
      answers,
      now.map((id) => sums.get(id)),
    )
  }
})
