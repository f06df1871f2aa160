// The models of a soak: every backend, an ensemble, and models that fail, end their worker, or take their time.

import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { exampleModels, projectRoot } from '../test/e2e/server-process.ts'

const shout = `import { fromStrings, type ModelRequest } from 'galatea/model'

export function infer(request: ModelRequest) {
  const text = request.input('TEXT')
  const lines = text.asStrings()
  if (lines[0] === 'fail') throw new Error('asked to fail')
  if (lines[0] === 'exit') process.exit(1)
  return [fromStrings('LOUD', text.shape, lines.map((line) => line.toUpperCase()))]
}
`

const faulty = `import os

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()) for request in requests]

    def answer(self, values):
        if values[0] == 1:
            raise ValueError("asked to fail")
        if values[0] == 2:
            os._exit(1)
        if values[0] == 3:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("asked for an error"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
`

const tensors = (type: string, [input, output]: readonly [string, string], dims: number): string =>
  `input { name: "${input}" data_type: ${type} dims: ${dims} }\noutput { name: "${output}" data_type: ${type} dims: ${dims} }\n`

const reading = `platform: "ensemble"
max_batch_size: 16
input { name: "image" data_type: TYPE_STRING dims: 1 }
output { name: "scores" data_type: TYPE_FP32 dims: 10 }
ensemble_scheduling {
  step { model_name: "digit_image" model_version: -1
    input_map { key: "image" value: "image" } output_map { key: "pixels" value: "pixels" } }
  step { model_name: "digits" model_version: -1
    input_map { key: "pixels" value: "pixels" } output_map { key: "scores" value: "scores" } }
}
`

const written: Readonly<Record<string, string>> = {
  'shout/1/model.ts': shout,
  'shout/config.pbtxt': `backend: "typescript"\n${tensors('TYPE_STRING', ['TEXT', 'LOUD'], 1)}`,
  'faulty/1/model.py': faulty,
  'faulty/config.pbtxt': `backend: "python"\n${tensors('TYPE_FP32', ['IN', 'OUT'], 1)}`,
  'slow/config.pbtxt':
    `backend: "identity"\n${tensors('TYPE_FP32', ['IN', 'OUT'], -1)}` +
    'parameters { key: "execute_delay_ms" value { string_value: "100" } }\n',
  'steps/config.pbtxt': `backend: "identity"\nsequence_batching { }\n${tensors('TYPE_FP32', ['IN', 'OUT'], -1)}`,
  'plain/config.pbtxt': `backend: "identity"\n${tensors('TYPE_FP32', ['IN', 'OUT'], -1)}`,
  'reading/config.pbtxt': reading,
}

/** A model of each kind, to be loaded again and again. */
export const reloadedModels = { python: 'add_sub', onnx: 'simple', typescript: 'shout', ensemble: 'reading' } as const

export type SoakRepository = AsyncDisposable & {
  readonly path: string
  /** Changes the configuration, so that the next load makes the model anew. */
  change(model: string): Promise<void>
}

export async function createSoakRepository(): Promise<SoakRepository> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-soak-'))
  for (const name of ['simple', 'digits', 'digit_image']) {
    await cp(path.join(exampleModels, name), path.join(root, name), { recursive: true })
  }
  for (const name of ['add_sub', 'repeat']) {
    await cp(path.join(projectRoot, 'examples/python', name), path.join(root, name), { recursive: true })
  }
  for (const [file, text] of Object.entries(written)) {
    await mkdir(path.join(root, file.split('/')[0] ?? '', '1'), { recursive: true })
    await writeFile(path.join(root, file), text)
  }
  let changes = 0
  return {
    path: root,
    async change(model) {
      const file = path.join(root, model, 'config.pbtxt')
      const text = (await readFile(file, 'utf8')).replace(/\nparameters \{ key: "change".*\n/, '')
      await writeFile(file, `${text}\nparameters { key: "change" value { string_value: "${++changes}" } }\n`)
    },
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  }
}
