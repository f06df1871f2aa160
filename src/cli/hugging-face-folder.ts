// Reads a folder as Hugging Face's library writes it: config.json, *.safetensors, the files of a tokenizer. Decides what serves it.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { ServerError } from '../base/server-error.ts'

type HuggingFaceTask = 'text-classification' | 'token-classification' | 'image-classification' | 'embedding' | 'chat'

export type HuggingFaceFolder = {
  readonly folder: string
  readonly architecture: string
  readonly task: HuggingFaceTask
  /** Names of the classes, in the order of the scores. */
  readonly labels: readonly string[]
  /** Numbers of an embedding. */
  readonly width: number
  /** What the model needs, relative to the folder. */
  readonly files: readonly string[]
}

/** By the end of the architecture's name; the first that fits. The same table is in templates/huggingface/my_model/1/model.py. */
const tasks: Readonly<Record<string, HuggingFaceTask>> = {
  ForSequenceClassification: 'text-classification',
  ForTokenClassification: 'token-classification',
  ForImageClassification: 'image-classification',
  ForCausalLM: 'chat',
  LMHeadModel: 'chat',
  ForMaskedLM: 'embedding',
  Model: 'embedding',
}

type ConfigJson = {
  readonly architectures?: readonly string[]
  readonly model_type?: string
  readonly id2label?: Readonly<Record<string, string>>
  readonly hidden_size?: number
  readonly dim?: number
  readonly d_model?: number
  readonly auto_map?: unknown
}

/** True for a folder whose config.json is one of Hugging Face's. */
export function isHuggingFaceFolder(folder: string): boolean {
  const file = path.join(folder, 'config.json')
  if (!existsSync(file)) return false
  const text = readFileSync(file, 'utf8')
  return /"(architectures|model_type)"\s*:/.test(text)
}

/** Throws with what is missing, and what to do about it. */
export function readHuggingFaceFolder(folder: string): HuggingFaceFolder {
  const config = configOf(folder)
  const architecture = config.architectures?.[0] ?? ''
  const names = readdirSync(folder)
  const task = taskOf(folder, architecture, config)
  refuseOtherWeights(folder, names)
  refuseForeignParts(folder, config, task, names)
  const labels = Object.entries(config.id2label ?? { 0: 'LABEL_0', 1: 'LABEL_1' })
  return {
    folder,
    architecture,
    task,
    labels: labels.toSorted(([one], [other]) => Number(one) - Number(other)).map(([, label]) => label),
    width: config.hidden_size ?? config.dim ?? config.d_model ?? -1,
    files: [...names.filter(isNeeded), ...(names.includes('1_Pooling') ? ['1_Pooling/config.json'] : [])].sort(),
  }
}

function configOf(folder: string): ConfigJson {
  try {
    return JSON.parse(readFileSync(path.join(folder, 'config.json'), 'utf8')) as ConfigJson
  } catch (reason) {
    throw new ServerError(
      'INVALID_ARG',
      `'${path.join(folder, 'config.json')}' is no JSON: ${(reason as Error).message}`,
    )
  }
}

function taskOf(folder: string, architecture: string, { model_type: type = '?' }: ConfigJson): HuggingFaceTask {
  const [, task] = Object.entries(tasks).find(([ending]) => architecture.endsWith(ending)) ?? []
  if (task !== undefined) return task
  const known = Object.keys(tasks).join(', ')
  const found = architecture === '' ? `no architecture (model_type '${type}')` : `the architecture ${architecture}`
  throw new ServerError(
    'UNSUPPORTED',
    `'${folder}' has ${found}, which galatea init does not know: it knows names that end in ${known}. Export the model to ONNX, or load it in a Python model: galatea init --template python`,
  )
}

/** Weights are read from safetensors alone, which hold no code. */
function refuseOtherWeights(folder: string, names: readonly string[]): void {
  if (names.some((name) => name.endsWith('.safetensors'))) return
  const gguf = names.find((name) => name.endsWith('.gguf'))
  const pickle = names.find((name) => /^pytorch_model.*\.bin$/.test(name))
  const advice =
    gguf !== undefined
      ? `serve its GGUF file: galatea init ${path.join(folder, gguf)} --repository ./models`
      : pickle !== undefined
        ? `'${pickle}' is a pickle, which may run code; write it anew with Model.from_pretrained(folder).save_pretrained(folder)`
        : 'download the folder as a whole, with its weights: hf download NAME --local-dir FOLDER'
  throw new ServerError('INVALID_ARG', `'${folder}' has no *.safetensors; ${advice}`)
}

function refuseForeignParts(folder: string, config: ConfigJson, task: HuggingFaceTask, names: readonly string[]): void {
  if (config.auto_map !== undefined && task !== 'chat') {
    throw new ServerError(
      'UNSUPPORTED',
      `'${folder}' needs code of its own (auto_map in config.json), which is not run; export the model to ONNX, or load it in a Python model of yours`,
    )
  }
  const dense = names.find((name) => /^\d+_(?!Pooling|Normalize)/.test(name))
  if (task === 'embedding' && dense !== undefined) {
    throw new ServerError(
      'UNSUPPORTED',
      `'${folder}' has a further step '${dense}' of sentence-transformers, which model.py does not do; load the folder with sentence-transformers in a Python model: galatea init --template python`,
    )
  }
  const wanted =
    task === 'image-classification' ? /^preprocessor_config\.json$/ : /^(tokenizer|vocab|spiece|sentencepiece)/
  if (task === 'chat' || names.some((name) => wanted.test(name))) return
  const part = task === 'image-classification' ? 'preprocessor_config.json' : 'files of a tokenizer (tokenizer.json)'
  throw new ServerError('INVALID_ARG', `'${folder}' has no ${part}: download the folder as a whole`)
}

/** Not read: weights of other frameworks, pictures, pages, and whatever else lies in a repository. */
const isNeeded = (name: string): boolean =>
  /\.(safetensors|model)$/.test(name) ||
  /^(config|preprocessor_config|modules|.*\.safetensors\.index|tokenizer.*|special_tokens_map|added_tokens|vocab|.*sentence.*)\.json$/.test(
    name,
  ) ||
  /^(vocab|merges)\.txt$/.test(name)
