// Describes a model file with the Python code of its framework, because only the framework can read the format.

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { notStarted } from '../base/not-started.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { OnnxFileTensor } from '../onnx-file/onnx-file.ts'
import { dataTypeOfConfig } from '../tensor/data-type.ts'
import { printable } from './printable.ts'

type DescribedModel = {
  readonly inputs: readonly OnnxFileTensor[]
  readonly outputs: readonly OnnxFileTensor[]
  readonly facts: Readonly<Record<string, string | number>>
}

/** The format does not describe its tensors; `config` is a first config.pbtxt. */
export class UndescribedModel extends ServerError {
  readonly config: string

  constructor(message: string, config: string) {
    super('UNSUPPORTED', message)
    this.config = config
  }
}

export type DescribeSettings = {
  /** The command that the user typed, for messages about its flags. */
  readonly command: string
  readonly python: string
  readonly allowsPickles: boolean
}

type TensorJson = { readonly name: string; readonly data_type: string; readonly shape: readonly number[] }
type Answer =
  | { readonly error: string; readonly config?: string }
  | {
      readonly error?: undefined
      readonly inputs: readonly TensorJson[]
      readonly outputs: readonly TensorJson[]
      readonly facts: Readonly<Record<string, string | number>>
    }

const program = fileURLToPath(new URL('../../python/inspect_model.py', import.meta.url))

/** Only the first part of a framework's error is useful. */
const maxErrorLength = 4000

export async function describeModel(
  backend: string,
  file: string,
  settings: DescribeSettings,
): Promise<DescribedModel> {
  if (!existsSync(file)) throw new ServerError('NOT_FOUND', `'${file}' is not there`)
  const answer = await ask(backend, file, settings)
  if (answer.error !== undefined) {
    if (answer.config !== undefined) throw new UndescribedModel(answer.error, answer.config)
    throw new ServerError('INVALID_ARG', answer.error)
  }
  return { inputs: answer.inputs.map(tensorOf), outputs: answer.outputs.map(tensorOf), facts: answer.facts }
}

const tensorOf = ({ name, data_type: configType, shape }: TensorJson): OnnxFileTensor => {
  const dataType = dataTypeOfConfig(configType)
  return { name, dataType, typeText: dataType ?? configType, shape: shape.map((size) => (size < 0 ? null : size)) }
}

function ask(backend: string, file: string, { command, python, allowsPickles }: DescribeSettings): Promise<Answer> {
  const env = {
    ...process.env,
    GALATEA_ALLOW_PICKLE_MODELS: allowsPickles ? '1' : '0',
    GALATEA_COMMAND: command,
  }
  return new Promise((resolve, reject) => {
    const child = spawn(python, [program, backend, file], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => void (stdout += text))
    child.stderr
      .setEncoding('utf8')
      .on('data', (text: string) => void (stderr = (stderr + text).slice(-maxErrorLength)))
    child.once('error', (reason) => {
      const message = `${notStarted(python, messageOf(reason))}; name a Python that has the framework with --python`
      reject(new ServerError('UNAVAILABLE', message))
    })
    child.once('close', (code) => {
      try {
        resolve(JSON.parse(stdout) as Answer)
      } catch {
        reject(new ServerError('INTERNAL', `'${python}' ended with exit code ${code}: ${printable(stderr.trim())}`))
      }
    })
  })
}
