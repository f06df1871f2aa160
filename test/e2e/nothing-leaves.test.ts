// Nothing leaves the machine, and nothing is written that nobody asked for: every backend and every command under strace,
// from start over load, inference and errors to exit.

import assert from 'node:assert/strict'
import { cp } from 'node:fs/promises'
import path from 'node:path'
import test from 'node:test'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { requireTool } from '../tool.ts'
import { httpInfer } from './http-infer.ts'
import { exampleModels, projectRoot, startServerProcess } from './server-process.ts'
import { Watch } from './watched-process.ts'

const filled = (value: number): number[] => Array.from({ length: 16 }, () => value)
const inputs = ['INPUT0', 'INPUT1'].map((name) => ({
  name,
  datatype: 'INT32',
  shape: [1, 16],
  data: filled(1),
}))
const addSub = `max_batch_size: 8
  input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
  output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] } ]`

const pythonModel = `
import os, numpy, onnxruntime
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.session = onnxruntime.InferenceSession(os.environ["SIMPLE"], providers=["CPUExecutionProvider"])
    def execute(self, requests):
        responses = []
        for request in requests:
            feed = {name: pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("INPUT0", "INPUT1")}
            out, _ = self.session.run(None, feed)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", out)]))
        return responses
`
/** A model may bring onnxruntime-node itself. */
const scriptModel = `
import ort from ${JSON.stringify(path.join(projectRoot, 'node_modules/onnxruntime-node/dist/index.js'))}
import { tensor } from 'galatea/model'
const session = await ort.InferenceSession.create(process.env.SIMPLE)
export const infer = async (request) => {
  const given = (name) => new ort.Tensor('int32', Int32Array.from(request.input(name).asInt32()), [1, 16])
  const { OUTPUT0 } = await session.run({ INPUT0: given('INPUT0'), INPUT1: given('INPUT1') })
  return [tensor('OUTPUT0', 'INT32', [1, 16], Int32Array.from(OUTPUT0.data))]
}
`
const simpleFile = path.join(exampleModels, 'simple/1/model.onnx')

for (const binding of ['native', 'javascript']) {
  test(`a server with ONNX (${binding}), Python and TypeScript models is quiet from start to exit`, async () => {
    const python = await requireTool('python-onnxruntime')
    const repository = await temporaryRepository({
      'broken/1/model.onnx': 'no model',
      'py/config.pbtxt': `backend: "python" ${addSub}`,
      'py/1/model.py': pythonModel,
      'ts/config.pbtxt': `backend: "typescript" ${addSub}`,
      'ts/1/model.ts': scriptModel,
      'apart/config.pbtxt': `backend: "typescript" ${addSub} parameters { key: "isolation" value { string_value: "process" } }`,
      'apart/1/model.ts': scriptModel,
    })
    await cp(path.join(exampleModels, 'simple'), path.join(repository.root, 'simple'), { recursive: true })
    await using watch = await Watch.start({ SIMPLE: simpleFile, PYTHONDONTWRITEBYTECODE: '1' })
    await using server = await startServerProcess(
      [
        `--model-repository=${repository.root}`,
        '--exit-on-error=false',
        '--python-env=SIMPLE',
        `--backend-config=python,interpreter=${python}`,
        ...(binding === 'javascript' ? ['--backend-config=onnxruntime,binding=javascript'] : []),
      ],
      { prefix: watch.prefix },
    )
    for (const model of ['simple', 'py', 'ts', 'apart']) {
      const { outputs, error } = await httpInfer(server.url, model, inputs)
      assert.deepEqual(outputs[0]?.data, filled(2), `${model}: ${error}\n${server.output}`)
      assert.notEqual((await httpInfer(server.url, model, inputs.slice(1))).status, 200)
    }
    assert.notEqual((await httpInfer(server.url, 'broken', inputs)).status, 200)
    assert.equal((await server.stop()).code, 0)
    await repository.remove()
    await watch.assertQuiet()
  })

  for (const thread of ['the main thread', 'a worker thread']) {
    test(`an engine embedded in ${thread} (${binding}) is quiet`, async () => {
      await using watch = await Watch.start({ GALATEA_ONNX_BINDING: binding })
      const url = (file: string): string => JSON.stringify(new URL(`../../${file}`, import.meta.url).href)
      const engine = `
        import { createEngine } from ${url('src/index.ts')}
        const engine = await createEngine({ modelRepository: ${JSON.stringify(exampleModels)} })
        const ones = new Int32Array(16).fill(1)
        const { outputs } = await engine.infer('simple', { INPUT0: ones, INPUT1: ones })
        if (outputs.OUTPUT0.data[0] !== 2) process.exit(3)
        await engine.infer('simple', {}).catch(() => undefined)
        await engine.close()`
      const inThread = `
        import { Worker } from 'node:worker_threads'
        const url = new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(engine)}))
        new Worker(url).on('error', (reason) => { throw reason })`
      const text = thread === 'the main thread' ? engine : inThread
      await watch.runModule(text)
      await watch.assertQuiet()
    })
  }
}

test('galatea inspect, init and check are quiet', async () => {
  await using watch = await Watch.start()
  const command = path.join(projectRoot, 'bin/galatea.js')
  await watch.run([command, 'inspect', simpleFile])
  await watch.run([command, 'init', simpleFile, '--repository', path.join(watch.home, 'made'), '--name', 'made'])
  await watch.run([command, 'check', exampleModels])
  await watch.assertQuiet(['home/made'])
})
