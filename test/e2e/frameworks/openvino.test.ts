// OpenVINO: its IR serves as it is, and ONNX files do too.

import assert from 'node:assert/strict'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import test, { after } from 'node:test'
import { requireTool } from '../../tool.ts'
import { httpInfer } from '../http-infer.ts'
import { exampleModels, startServerProcess } from '../server-process.ts'
import { FrameworkRepository } from './framework-repository.ts'

const python = await requireTool('python-openvino')
const repository = await FrameworkRepository.make(python, 'make_openvino.py')
after(() => repository[Symbol.asyncDispose]())

test('IR answers as OpenVINO does, with a free batch and with one that was saved as one; ONNX runs in it, too', async () => {
  const model = path.join(repository.path, 'simple_in_openvino')
  await mkdir(path.join(model, '1'), { recursive: true })
  await cp(path.join(exampleModels, 'simple/1/model.onnx'), path.join(model, '1/model.onnx'))
  await writeFile(path.join(model, 'config.pbtxt'), 'backend: "openvino"\n')
  const broken = path.join(repository.path, 'no_such_device')
  await cp(path.join(repository.path, 'free_batch'), broken, { recursive: true })
  const device = 'parameters { key: "TARGET_DEVICE" value { string_value: "NPU" } }\n'
  await writeFile(path.join(broken, 'config.pbtxt'), `backend: "openvino"\n${device}`)
  const output = 'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 16 }'
  for (const [name, from, config] of [
    ['one_input', 'simple_in_openvino', `input { name: "INPUT0" data_type: TYPE_INT32 dims: 16 } ${output}`],
    [
      'other_dims',
      'free_batch',
      'input { name: "features" data_type: TYPE_FP32 dims: 5 } output { name: "scores" data_type: TYPE_FP32 dims: 3 }',
    ],
  ] as const) {
    await cp(path.join(repository.path, from), path.join(repository.path, name), { recursive: true })
    await writeFile(
      path.join(repository.path, name, 'config.pbtxt'),
      `backend: "openvino" max_batch_size: 8 ${config}\n`,
    )
  }
  await repository.inspect('free_batch', 'model.xml')
  await repository.init('free_batch', 'model.xml')
  await using server = await startServerProcess([
    `--model-repository=${repository.path}`,
    '--exit-on-error=false',
    `--backend-config=openvino,interpreter=${python}`,
  ])
  await repository.check(server)
  assert.match(server.output, /model 'free_batch' was saved with OpenVINO 2024\.1.* and runs with 20/)
  assert.doesNotMatch(server.output, /model 'fixed_batch' was saved with/)
  const numbers = Array.from({ length: 16 }, (_, index) => index)
  const { outputs } = await httpInfer(server.url, 'simple_in_openvino', [
    { name: 'INPUT0', datatype: 'INT32', shape: [1, 16], data: numbers },
    { name: 'INPUT1', datatype: 'INT32', shape: [1, 16], data: numbers },
  ])
  const sums = outputs.find(({ name }) => name === 'OUTPUT0')
  assert.deepEqual(
    sums?.data,
    numbers.map((number) => 2 * number),
  )
  assert.match(server.output, /model 'no_such_device' wants the device NPU \(TARGET_DEVICE\), OpenVINO finds CPU/)
  assert.match(server.output, /unable to load model 'one_input', configuration expects 1 inputs, model provides 2/)
  assert.match(
    server.output,
    /model 'other_dims', tensor 'features': the model expects 2 dimensions \(shape \[-1,4\]\) but the model configuration specifies 2 dimensions \(complete shape \[-1,5\]\)/,
  )
})
