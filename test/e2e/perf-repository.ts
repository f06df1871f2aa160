// The models that the load generator is tried on, in the language that the server at hand runs: identity and TypeScript
// for Galatea, Python for the real Triton. Names, types and behaviour are the same.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

export type PerfRepository = AsyncDisposable & { readonly path: string }
type Language = 'typescript' | 'python'
type PerfModel = { readonly config: string; readonly code: Readonly<Record<Language, string>> }

const copy: PerfModel['code'] = {
  typescript: `import { fromBytes } from 'galatea/model'
export const infer = (request) => {
  const x = request.input('INPUT0')
  return [fromBytes('OUTPUT0', x.dataType, x.shape, x.bytes)]
}
`,
  python: `import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0",
            pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())]) for request in requests]
`,
}

const tensors = (type: string, dims: number): string =>
  `input { name: "INPUT0" data_type: ${type} dims: ${dims} }\noutput { name: "OUTPUT0" data_type: ${type} dims: ${dims} }`

/** X[0] below 0 is an error; else X. */
const picky: PerfModel['code'] = {
  typescript: `import { fromBytes, InferenceError } from 'galatea/model'
export const infer = (request) => {
  const x = request.input('INPUT0')
  if (x.asInt32()[0] < 0) throw new InferenceError('below zero')
  return [fromBytes('OUTPUT0', x.dataType, x.shape, x.bytes)]
}
`,
  python: `import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            if x.flatten()[0] < 0:
                answers.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("below zero")))
            else:
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", x)]))
        return answers
`,
}

/** COUNT[0] responses. */
const repeat: PerfModel['code'] = {
  typescript: `import { tensor } from 'galatea/model'
export async function* infer(request) {
  const count = request.input('COUNT').asInt32()[0]
  for (let i = 0; i < count; i++) yield [tensor('INDEX', 'INT32', [1], [i])]
}
`,
  python: `import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0]):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("INDEX", np.array([i], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
}

/** A response, then an error; the model in Python goes on after it. */
const stumbling: PerfModel['code'] = {
  typescript: `import { InferenceError, tensor } from 'galatea/model'
export async function* infer(request) {
  yield [tensor('INDEX', 'INT32', [1], [0])]
  throw new InferenceError('half way')
}
`,
  python: `import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(3):
                error = pb_utils.TritonError("half way") if i == 1 else None
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("INDEX", np.array([i], np.int32))], error=error))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
}

const decoupled = `input { name: "COUNT" data_type: TYPE_INT32 dims: 1 }
output { name: "INDEX" data_type: TYPE_INT32 dims: 1 }
model_transaction_policy { decoupled: true }`

const models: Readonly<Record<string, PerfModel>> = {
  rows: {
    config: `max_batch_size: 8\n${tensors('TYPE_FP32', -1)}\ndynamic_batching { max_queue_delay_microseconds: 100 }`,
    code: copy,
  },
  words: { config: `max_batch_size: 8\n${tensors('TYPE_STRING', -1)}`, code: copy },
  picky: { config: `max_batch_size: 8\n${tensors('TYPE_INT32', 2)}`, code: picky },
  turns: {
    config: `max_batch_size: 1\n${tensors('TYPE_INT32', 2)}
sequence_batching { max_sequence_idle_microseconds: 5000000 }
instance_group { count: 4 kind: KIND_CPU }`,
    code: copy,
  },
  repeat: { config: decoupled, code: repeat },
  stumbling: { config: decoupled, code: stumbling },
}

const ensemble = `platform: "ensemble"
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: -1 }
output { name: "OUT" data_type: TYPE_FP32 dims: -1 }
ensemble_scheduling { step {
  model_name: "rows" model_version: -1
  input_map { key: "INPUT0" value: "IN" }
  output_map { key: "OUTPUT0" value: "OUT" }
} }`

export async function createPerfRepository(language: Language): Promise<PerfRepository> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-perf-'))
  for (const [name, { config, code }] of Object.entries(models)) {
    await mkdir(path.join(root, name, '1'), { recursive: true })
    await writeFile(path.join(root, name, 'config.pbtxt'), `backend: "${language}"\n${config}\n`)
    await writeFile(path.join(root, name, '1', language === 'python' ? 'model.py' : 'model.ts'), code[language])
  }
  await mkdir(path.join(root, 'chain', '1'), { recursive: true })
  await writeFile(path.join(root, 'chain', 'config.pbtxt'), `${ensemble}\n`)
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}
