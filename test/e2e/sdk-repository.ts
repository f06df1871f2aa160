// The models that the SDK is tried on, in the language that the server at hand runs: TypeScript for Galatea, Python for
// the real Triton. Names, types and behaviour are the same.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { configDataType, dataTypes } from '../../src/tensor/data-type.ts'

export type SdkRepository = AsyncDisposable & { readonly path: string }
type Language = 'typescript' | 'python'

type SdkModel = { readonly config: string; readonly code: Readonly<Record<Language, string>> }

/** Every type goes in as IN_<type> and comes out as OUT_<type>. */
const echo: SdkModel = {
  config: dataTypes
    .map((type) => {
      const tensor = (name: string, extra: string): string =>
        `{ name: "${name}_${type}" data_type: ${configDataType(type)} dims: [ -1 ] ${extra}}`
      return `input ${tensor('IN', 'optional: true ')}\noutput ${tensor('OUT', '')}`
    })
    .join('\n'),
  code: {
    typescript: `import { fromBytes } from 'galatea/model'
export const infer = (request) =>
  [...request.inputs.values()].map((x) => fromBytes(x.name.replace('IN_', 'OUT_'), x.dataType, x.shape, x.bytes))
`,
    python: `import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            outputs = []
            for tensor in request.inputs():
                name = tensor.name().replace("IN_", "OUT_")
                if name == "OUT_BF16":
                    outputs.append(pb_utils.Tensor.from_dlpack(name, tensor.to_dlpack()))
                else:
                    outputs.append(pb_utils.Tensor(name, tensor.as_numpy()))
            answers.append(pb_utils.InferenceResponse(outputs))
        return answers
`,
  },
}

/** COUNT responses, each with its index and a text. */
const repeat: SdkModel = {
  config: `input { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "INDEX" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }
model_transaction_policy { decoupled: true }`,
  code: {
    typescript: `import { tensor } from 'galatea/model'
export async function* infer(request) {
  const count = request.input('COUNT').asInt32()[0]
  for (let i = 0; i < count; i++) yield [tensor('INDEX', 'INT32', [1], [i]), tensor('TEXT', 'BYTES', [1], ['piece ' + i])]
}
`,
    python: `import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0]):
                sender.send(pb_utils.InferenceResponse([
                    pb_utils.Tensor("INDEX", np.array([i], np.int32)),
                    pb_utils.Tensor("TEXT", np.array([f"piece {i}".encode()], np.object_))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
  },
}

/** Says what the request was, after X[0] milliseconds; a negative number is an error. */
const inspect: SdkModel = {
  config: `input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "ECHO" data_type: TYPE_INT32 dims: [ -1 ] }`,
  code: {
    typescript: `import { InferenceError, tensor } from 'galatea/model'
export async function infer(request) {
  const x = request.input('X').asInt32()
  if (x[0] < 0) throw new InferenceError('negative: ' + x[0])
  await new Promise((resolve) => setTimeout(resolve, x[0]))
  const parameters = Object.fromEntries(
    [...request.parameters].map(([key, value]) => [key, typeof value === 'bigint' ? Number(value) : value]),
  )
  const seen = JSON.stringify({
    id: request.id, sequence: String(request.correlationId), start: request.isSequenceStart, end: request.isSequenceEnd,
    timeout: Number(request.timeoutUs), parameters,
  })
  return [tensor('SEEN', 'BYTES', [1], [seen]), tensor('ECHO', 'INT32', [x.length], x)]
}
`,
    python: `import json, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            if x[0] < 0:
                answers.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(f"negative: {x[0]}")))
                continue
            time.sleep(x[0] / 1000)
            seen = json.dumps({"id": request.request_id(), "sequence": str(request.correlation_id()),
                "start": bool(request.flags() & 1), "end": bool(request.flags() & 2),
                "timeout": request.timeout(), "parameters": json.loads(request.parameters())})
            answers.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("SEEN", np.array([seen.encode()], np.object_)), pb_utils.Tensor("ECHO", x)]))
        return answers
`,
  },
}

/** SCORES as they came, with names for the first three classes. */
const labelled: SdkModel = {
  config: `max_batch_size: 4
input { name: "SCORES" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "CLASSES" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "labels.txt" }`,
  code: {
    typescript: `import { fromBytes } from 'galatea/model'
export const infer = (request) => {
  const x = request.input('SCORES')
  return [fromBytes('CLASSES', 'FP32', x.shape, x.bytes)]
}
`,
    python: `import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("CLASSES",
            pb_utils.get_input_tensor_by_name(request, "SCORES").as_numpy())]) for request in requests]
`,
  },
}

export const sdkModels = { echo, repeat, inspect, labelled }

export const codeFile = (language: Language): string => `1/model.${language === 'python' ? 'py' : 'ts'}`

export async function createSdkRepository(language: Language): Promise<SdkRepository> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-sdk-'))
  for (const [name, { config, code }] of Object.entries(sdkModels)) {
    await mkdir(path.join(root, name, '1'), { recursive: true })
    await writeFile(path.join(root, name, 'config.pbtxt'), `backend: "${language}"\n${config}\n`)
    await writeFile(path.join(root, name, codeFile(language)), code[language])
  }
  await writeFile(path.join(root, 'labelled', 'labels.txt'), 'cat\ndog\nbird\n')
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}
