// scikit-learn, XGBoost and LightGBM: what they saved serves as it is, and answers as they do.

import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { requireTool } from '../../tool.ts'
import { httpInfer } from '../http-infer.ts'
import { startServerProcess } from '../server-process.ts'
import { FrameworkRepository } from './framework-repository.ts'

const python = await requireTool('python-sklearn')
const repository = await FrameworkRepository.make(python, 'make_tabular.py')
after(() => repository[Symbol.asyncDispose]())

test('what the frameworks saved is described by its files, and answers as the frameworks do', async () => {
  await repository.inspect('patients', 'model.joblib')
  await repository.inspect('flowers_xgboost', 'model.ubj')
  await repository.inspect('travels_lightgbm', 'model.txt')
  await repository.init('flowers', 'model.skops')
  await using server = await startServerProcess([
    `--model-repository=${repository.path}`,
    '--allow-pickle-models',
    ...['sklearn', 'xgboost', 'lightgbm'].map((name) => `--backend-config=${name},interpreter=${python}`),
  ])
  await repository.check(server)
  assert.match(server.output, /model 'patients': loading the pickle 'model.joblib' runs any code/)
  const config = (await (await fetch(`${server.url}/v2/models/flowers/config`)).json()) as Record<string, unknown>
  assert.equal(config['max_batch_size'], 4)
  assert.ok('dynamic_batching' in config)
  assert.match(server.output, /model 'flowers_xgboost' was saved with XGBoost 2\.1\.0 and runs with 3\./)
  assert.doesNotMatch(server.output, /model 'patients_xgboost' was saved with/)
  const best = async (model: string): Promise<string> => {
    const inputs = [{ name: 'input', datatype: 'FP32', shape: [1, 4], data: [5.1, 3.5, 1.4, 0.2] }]
    const wanted = [{ name: 'probabilities', parameters: { classification: 2 } }]
    const { outputs } = await httpInfer(server.url, model, inputs, wanted)
    return String(outputs[0]?.data[0])
  }
  assert.match(await best('flowers'), /^1\.0+:0:setosa$/, 'the estimator knows the names of its classes')
  assert.match(await best('flowers_xgboost'), /^0\.\d+:0$/)
  const unknown = [
    { name: 'age', datatype: 'FP32', shape: [1, 1], data: [30] },
    { name: 'port', datatype: 'BYTES', shape: [1, 1], data: ['Ulm'] },
    { name: 'deck', datatype: 'FP32', shape: [1, 1], data: [10] },
  ]
  const refused = await httpInfer(server.url, 'travels_xgboost', unknown)
  assert.equal(refused.status, 400)
  assert.match(refused.error, /'Ulm' is no category of the model, which knows Cork, Derby, Essen/)
})

test('a pickle is refused unless it is allowed; a missing framework is named with the command that installs it', async () => {
  await using server = await startServerProcess([
    `--model-repository=${repository.path}`,
    '--exit-on-error=false',
    '--model-control-mode=explicit',
    '--load-model=patients',
    '--load-model=virginica_lightgbm',
    `--backend-config=sklearn,interpreter=${python}`,
    `--backend-config=lightgbm,interpreter=${await requireTool('python-openvino')}`,
  ])
  assert.match(server.output, /loading it runs any code that is in it.*--allow-pickle-models.*skops/s)
  assert.match(server.output, /LightGBM is not installed for .*'.* -m pip install lightgbm' installs it there/)
  assert.equal((await httpInfer(server.url, 'patients', [])).status, 404)
})
