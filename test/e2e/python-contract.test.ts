// The contract of every backend, kept by a Python worker: by a plain model and by one whose execute is a coroutine.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after } from 'node:test'
import { SystemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { copyModelConfig, filesOf, testBackendContract } from '../../src/backends/backend.contract.ts'
import { PythonBackend } from '../../src/backends/python/python-backend.ts'
import type { ModelServices } from '../../src/model/model-services.ts'
import { encodeModelConfigJson } from '../../src/protocol/model-config-json.ts'
import { CustomMetricRegistry } from '../../src/telemetry/custom-metrics.ts'
import { testPython } from './python-checks.ts'

const executes: Readonly<Record<string, string>> = {
  'python': `def execute(self, requests):
        return [copy(request) for request in requests]`,
  'python (a coroutine)': `async def execute(self, requests):
        await asyncio.sleep(0)
        return [copy(request) for request in requests]`,
} // prettier-ignore

const modelText = (execute: string): string => `import asyncio
import triton_python_backend_utils as pb_utils

def copy(request):
    tensors = [pb_utils.get_input_tensor_by_name(request, name) for name in ("INPUT0", "INPUT1")]
    return pb_utils.InferenceResponse([pb_utils.Tensor(f"OUTPUT{i}", t.as_numpy()) for i, t in enumerate(tensors)])

class TritonPythonModel:
    ${execute}
`

const unused = (): never => {
  throw new Error('the copying model asks nothing of the server')
}
const services: ModelServices = {
  infer: unused,
  findReadyModel: unused,
  loadModel: unused,
  unloadModel: unused,
  encodeConfig: encodeModelConfigJson,
  metrics: new CustomMetricRegistry(),
}

for (const [name, execute] of Object.entries(executes)) {
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-python-contract-'))
  after(() => rmSync(folder, { recursive: true }))
  mkdirSync(path.join(folder, '1'))
  writeFileSync(path.join(folder, '1/model.py'), modelText(execute))
  testBackendContract(name, () => {
    const dependencies = { clock: new SystemClock(), log: silentLog, services }
    const backend = new PythonBackend(dependencies, new Map([['interpreter', testPython()]]))
    return Promise.resolve({ backend, config: copyModelConfig(), files: filesOf(folder) })
  })
}
