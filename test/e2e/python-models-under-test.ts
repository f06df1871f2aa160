// Python models of a test: written to a folder, loaded by a real Engine, asked without a socket.

import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { SystemClock } from '../../src/base/clock.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { PythonBackend } from '../../src/backends/python/python-backend.ts'
import { Engine } from '../../src/engine/engine.ts'
import { InferenceRequest, type InferenceRequestFields } from '../../src/model/inference-request.ts'
import type { InferenceResponse } from '../../src/model/inference-response.ts'
import type { ModelServices } from '../../src/model/model-services.ts'
import { encodeModelConfigJson } from '../../src/protocol/model-config-json.ts'
import { ModelRepository } from '../../src/repository/model-repository.ts'
import { LocalStore } from '../../src/repository/local-store.ts'
import { CustomMetricRegistry } from '../../src/telemetry/custom-metrics.ts'
import type { DataType } from '../../src/tensor/data-type.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { engineOptions } from '../fixtures/engine-options.ts'
import { until } from '../until.ts'

/** `file` is where the code goes in the version's folder: model.py without it. */
export type ModelText = { readonly code: string; readonly config: string; readonly file?: string }
export type Answer = {
  /** Output values by name: numbers, or text for BYTES. */
  readonly outputs: Readonly<Record<string, readonly (number | string)[]>>
  readonly shapes: Readonly<Record<string, readonly number[]>>
  readonly parameters: InferenceResponse['parameters']
  readonly error: ServerError | null
  readonly isFlagOnly: boolean
}

/** The interpreter of the test environment, which has numpy; any python3 when run by hand. */
export const testPython = process.env['GALATEA_TEST_PYTHON'] ?? 'python3'

export const imports = 'import numpy as np\nimport triton_python_backend_utils as pb_utils\n'

/** One BYTES input X, one BYTES output OUT. */
export const textConfig = `backend: "python"
input { name: "X" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }
`

/** A model whose execute is `lines`, with `text(request)` and `answer(text)` at hand. */
export const textModel = (lines: string, before = ''): string => `${imports}
import asyncio, json, os, sys, threading, time
${before}

def text(request):
    return pb_utils.get_input_tensor_by_name(request, "X").as_numpy()[0].decode()

def answer(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([str(value).encode()], dtype=np.object_))])

class TritonPythonModel:
${lines.replace(/^/gm, '    ')}
`

export class PythonModels {
  readonly folder: string
  readonly log = new MemoryLog()
  readonly metrics = new CustomMetricRegistry()
  readonly engine: Engine
  #isOurs = false

  private constructor(
    folder: string,
    settings: Record<string, string>,
    sharedDirectory: string,
    followsTriton: boolean,
  ) {
    this.folder = folder
    const clock = new SystemClock()
    const { log } = this
    const services: ModelServices = {
      infer: (request) => this.#infer(request),
      findReadyModel: (name, version) =>
        this.engine.isModelReady(name, version)
          ? { isDecoupled: this.engine.findVersion(name, version).signature.isDecoupled }
          : null,
      loadModel: async (name) => {
        await this.engine.load(name)
      },
      unloadModel: async (name) => {
        await this.engine.unload(name)
      },
      encodeConfig: encodeModelConfigJson,
      metrics: this.metrics,
    }
    const options = new Map(Object.entries({ interpreter: testPython, ...settings }))
    const dependencies = { clock, log, services, followsTriton }
    const backend = new PythonBackend(dependencies, options)
    const shared = new PythonBackend(dependencies, options, { name: 'shared', directory: sharedDirectory })
    const backends = new Map([backend, shared].map((made) => [made.name, made]))
    const repository = new ModelRepository(
      { log, store: new LocalStore() },
      { roots: [folder], modelConfigName: '', isAutoCompleteDisabled: false },
    )
    this.engine = new Engine(
      {
        clock,
        log,
        repository,
        findBackend: (name) => Promise.resolve(backends.get(name) ?? null),
        closeBackends: async () => {
          for (const made of backends.values()) await made.close()
        },
      },
      { ...engineOptions, id: 'test' },
    )
  }

  static async load(
    models: Record<string, ModelText>,
    settings: Record<string, string> = {},
    sharedDirectory = '/nowhere',
    followsTriton = false,
  ): Promise<PythonModels> {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-python-'))
    for (const [name, { code, config, file = 'model.py' }] of Object.entries(models)) {
      const program = path.join(folder, name, '1', file)
      fs.mkdirSync(path.dirname(program), { recursive: true })
      if (code !== '') fs.writeFileSync(program, code)
      if (config !== '') fs.writeFileSync(path.join(folder, name, 'config.pbtxt'), config)
    }
    const loaded = new PythonModels(folder, settings, sharedDirectory, followsTriton)
    loaded.#isOurs = true
    await loaded.engine.start()
    return loaded
  }

  /** A repository that is there already, and stays. */
  static async open(folder: string): Promise<PythonModels> {
    const opened = new PythonModels(folder, {}, '/nowhere', false)
    await opened.engine.start()
    return opened
  }

  /** Why a model does not serve; '' when it does. */
  failure(name: string): string {
    return this.engine.index().find((entry) => entry.name === name)?.reason ?? ''
  }

  /** Lines that the log holds about `word`. */
  logged(word: string): string[] {
    return this.log.entries.map((entry) => entry.message).filter((message) => message.includes(word))
  }

  /** Resolves once the log has such a line. */
  async said(word: string): Promise<void> {
    await until(() => this.logged(word).length, `'${word}' in the log`, { seen: () => this.log.entries })
  }

  /** Resolves once the model serves, or does not. */
  async becomesReady(name: string, isReady = true): Promise<void> {
    await until(
      () => this.engine.isModelReady(name, '') === isReady,
      `${name} ${isReady ? 'to serve' : 'not to serve'}`,
    )
  }

  request(
    modelName: string,
    inputs: Tensor[],
    onAnswer: (answer: Answer, isFinal: boolean) => void,
    fields: Partial<InferenceRequestFields> = {},
  ): InferenceRequest {
    const request = new InferenceRequest({
      ...fields,
      modelName,
      inputs,
      sink: (response) => {
        const answer = answerOf(response)
        response.release()
        onAnswer(answer, response.isFinal)
      },
    })
    this.#infer(request)
    return request
  }

  /** Every response, the final one last. */
  infer(modelName: string, inputs: Tensor[], fields: Partial<InferenceRequestFields> = {}): Promise<Answer[]> {
    return new Promise((resolve) => {
      const answers: Answer[] = []
      this.request(
        modelName,
        inputs,
        (answer, isFinal) => {
          answers.push(answer)
          if (isFinal) resolve(answers)
        },
        fields,
      )
    })
  }

  /** For models of `textConfig`: the text answered, or the error. */
  async say(modelName: string, text: string, fields: Partial<InferenceRequestFields> = {}): Promise<string> {
    const [answer] = await this.infer(modelName, [textTensor('X', [text])], fields)
    if (answer?.error) return `${answer.error.code}: ${answer.error.message}`
    return String(answer?.outputs['OUT']?.[0])
  }

  async close(): Promise<void> {
    await this.engine.close(5000)
    if (this.#isOurs) fs.rmSync(this.folder, { recursive: true, force: true })
  }

  #infer(request: InferenceRequest): void {
    try {
      this.engine.infer(request, this.engine.findVersion(request.modelName, request.modelVersion))
    } catch (reason) {
      request.fail(ServerError.from(reason))
    }
  }
}

export function numbersTensor(
  name: string,
  dataType: 'FP32' | 'INT32' | 'UINT32' | 'FP64',
  shape: number[],
  values: number[],
): Tensor {
  const array =
    dataType === 'FP32'
      ? Float32Array.from(values)
      : dataType === 'INT32' || dataType === 'UINT32'
        ? Int32Array.from(values)
        : Float64Array.from(values)
  return new Tensor(name, dataType, shape, new Uint8Array(array.buffer))
}

export function textTensor(name: string, values: readonly string[], shape: number[] = [values.length]): Tensor {
  const parts = values.flatMap((value) => {
    const bytes = Buffer.from(value)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(bytes.length)
    return [length, bytes]
  })
  return new Tensor(name, 'BYTES', shape, Buffer.concat(parts))
}

function answerOf(response: InferenceResponse): Answer {
  const outputs: Record<string, (number | string)[]> = {}
  const shapes: Record<string, readonly number[]> = {}
  for (const tensor of response.outputs) {
    outputs[tensor.name] = valuesOf(tensor.dataType, Uint8Array.from(tensor.bytes))
    shapes[tensor.name] = tensor.shape
  }
  const { parameters, error, isFlagOnly } = response
  return { outputs, shapes, parameters, error, isFlagOnly }
}

function valuesOf(dataType: DataType, bytes: Uint8Array): (number | string)[] {
  if (dataType === 'FP32') return [...new Float32Array(bytes.buffer)]
  if (dataType === 'FP64') return [...new Float64Array(bytes.buffer)]
  if (dataType === 'INT32' || dataType === 'UINT32') return [...new Int32Array(bytes.buffer)]
  if (dataType === 'INT64') return [...new BigInt64Array(bytes.buffer)].map(Number)
  if (dataType !== 'BYTES') return [...bytes]
  const values: string[] = []
  const buffer = Buffer.from(bytes)
  for (let offset = 0; offset < buffer.length;) {
    const length = buffer.readUInt32LE(offset)
    values.push(buffer.toString('utf8', offset + 4, offset + 4 + length))
    offset += 4 + length
  }
  return values
}
