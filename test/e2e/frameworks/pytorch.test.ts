// PyTorch: TorchScript, exported programs and classes serve as they are, with Triton's naming rules and parameters.

import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import test, { after } from 'node:test'
import { createHttpClient } from '../../../src/client/node.ts'
import { requireTool } from '../../tool.ts'
import { startServerProcess } from '../server-process.ts'
import { FrameworkRepository } from './framework-repository.ts'

const python = await requireTool('python-pytorch')
const repository = await FrameworkRepository.make(python, 'make_pytorch.py')
after(() => repository[Symbol.asyncDispose]())
await repository.inspect('program', 'model.pt2')
const server = await startServerProcess([
  `--model-repository=${repository.path}`,
  '--exit-on-error=false',
  '--model-control-mode=explicit',
  '--load-model=*',
  `--backend-config=pytorch,interpreter=${python}`,
])
after(() => server.stop())
const client = createHttpClient({ url: server.url })

const reasonOf = async (model: string): Promise<string> =>
  (await client.repositoryIndex()).find(({ name }) => name === model)?.reason ?? ''

test('every format and way of naming answers as PyTorch does, over HTTP and gRPC, batched and alone', async () => {
  await repository.check(server)
  const { max_batch_size: maxBatchSize, dynamic_batching: isBatched } = await client.modelConfig('program')
  assert.equal(maxBatchSize, 4)
  assert.notEqual(isBatched, undefined)
  const [numbered] = await client.statistics('numbered')
  assert.ok(numbered !== undefined && numbered.executionCount < numbered.inferenceCount, 'nothing was batched')
})

test('an optional input may be left out and given', async () => {
  const rows = { shape: [1, 4], dataType: 'BF16' } as const
  const result = await client.infer('named_bf16', {
    a: { ...rows, data: [1, 2, 3, 4] },
    b: { ...rows, data: [1, 1, 1, 1] },
    scale: { dataType: 'BF16', shape: [1, 1], data: [10] },
  })
  assert.deepEqual([...result.output('sum__0').float32()], [11, 12, 13, 14])
})

test('the controls and the state of a sequence are arguments like inputs, and values of the answer', async () => {
  const totals = []
  for (const [sequenceId, value, sequenceStart] of [
    [1, 5, true],
    [2, 100, true],
    [1, 6, false],
    [2, 1, false],
    [1, 7, false],
  ] as const) {
    const value0 = { dataType: 'INT64', shape: [1, 1], data: [value] } as const
    const result = await client.infer(
      'tally',
      { VALUE__0: value0 },
      {
        sequence: { id: sequenceId, start: sequenceStart, end: false },
      },
    )
    totals.push(result.output('TOTAL__0').numbers()[0])
  }
  assert.deepEqual(totals, [5, 100, 11, 101, 18])
})

test('a request that breaks its batch fails alone, with what the model says', async () => {
  const infer = (first: number): Promise<unknown> => {
    const row = { shape: [1, 4], dataType: 'BF16', data: [first, 0, 0, 0] } as const
    return client.infer('named_bf16', { a: row, b: row })
  }
  const outcomes = await Promise.allSettled([1, 99, 2, 3].map(infer))
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  )
  await assert.rejects(infer(99), /PyTorch failed to run model 'named_bf16': .*99 is not welcome/s)
})

test('instances share the weights that they map from the file', async () => {
  const log = /model 'numbered' shares (\d+) bytes/.exec(server.output)
  assert.equal(Number(log?.[1]), 4 * (4 * 8192 + 3 * 8192))
  const children = (await readFile(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8')).trim().split(' ')
  const maps = await Promise.all(children.map((pid) => readFile(`/proc/${pid}/maps`, 'utf8')))
  const sharing = maps.filter((text) => text.includes(path.join(repository.path, 'numbered/1/model.pt')))
  assert.equal(sharing.length, 2)
})

test('a program that another version saved gets a warning that names both', () => {
  assert.match(server.output, /model 'program' was saved with PyTorch 2\.5\.1 and runs with 2\.\d+/)
  assert.doesNotMatch(server.output, /model 'nested' was saved with/)
})

test('TorchScript without a configuration fails with one to copy, which serves', async () => {
  const reason = await reasonOf('undescribed')
  assert.match(reason, /TorchScript does not say/)
  const [, config = ''] = reason.split('\n\n')
  await writeFile(path.join(repository.path, 'undescribed/config.pbtxt'), config)
  await client.loadModel('undescribed')
  const rows = { shape: [2], dataType: 'FP32', data: [1, 2] } as const
  const result = await client.infer('undescribed', { a: rows, b: rows, scale: rows })
  assert.deepEqual([...result.output('OUTPUT__0').float32()], [2, 6])
})

test('weights without their class, models saved whole, and parameters that are none, are refused with what to do', async () => {
  assert.match(await reasonOf('weights_alone'), /is not TorchScript .*runtime: "model\.py"/)
  assert.match(await reasonOf('saved_whole'), /was saved whole .*torch\.export\.save/)
  assert.match(
    await reasonOf('wrong_parameter'),
    /parameter INTRA_OP_THREAD_COUNT of model 'wrong_parameter': expected a whole number of at least 0, got 'many'/,
  )
})
