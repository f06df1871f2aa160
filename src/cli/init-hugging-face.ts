// `galatea init FOLDER` for a folder of Hugging Face: the model.py of the template, or vLLM for a language model.

import { constants } from 'node:fs'
import { copyFile, mkdir, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { ServerError } from '../base/server-error.ts'
import { readHuggingFaceFolder, type HuggingFaceFolder } from './hugging-face-folder.ts'
import { quotedText } from './init-config-text.ts'
import { templatesPath } from './package-facts.ts'
import { interpreterFlags, nextSteps } from './next-steps.ts'
import { missingPackages } from './python-program.ts'

type FolderSettings = {
  readonly file: string
  readonly repository: string
  readonly name: string
  readonly maxBatchSize: number | null
  readonly isForced: boolean
  readonly python: string
}

const defaultMaxBatchSize = 32

/** Resolves with what to tell the user. */
export async function initHuggingFace(settings: FolderSettings): Promise<string> {
  const { file, repository, name, python } = settings
  const found = readHuggingFaceFolder(file)
  const folder = path.join(repository, name)
  if ((await stat(folder).catch(() => null)) !== null) {
    if (!settings.isForced) {
      throw new ServerError(
        'INVALID_ARG',
        `'${folder}' is already there; choose another --name, or replace it with --force`,
      )
    }
    if (!path.relative(folder, file).startsWith('..')) {
      throw new ServerError('INVALID_ARG', `'${file}' lies in '${folder}', which --force would remove; move it first`)
    }
    await rm(folder, { recursive: true })
  }
  const version = path.join(folder, '1')
  await mkdir(version, { recursive: true })
  const isChat = found.task === 'chat'
  if (isChat) await writeFile(path.join(version, 'model.json'), `${JSON.stringify({ model: path.resolve(file) })}\n`)
  else await copyParts(found, version)
  await writeFile(path.join(folder, 'config.pbtxt'), folderConfigText(name, found, settings.maxBatchSize))
  if (hasScores(found)) await writeFile(path.join(folder, 'labels.txt'), `${found.labels.map(oneLine).join('\n')}\n`)
  const backend = isChat ? 'vllm' : 'python'
  const pillow = found.task === 'image-classification' ? { PIL: 'pillow' } : {}
  const packages = isChat
    ? { vllm: 'vllm' }
    : { torch: 'torch', transformers: 'transformers', numpy: 'numpy', ...pillow }
  const missing = await missingPackages(python, packages).catch(() => null)
  return [
    `Made ${path.join(folder, 'config.pbtxt')} and ${version}: ${found.architecture} for ${found.task}, run by ${isChat ? 'vLLM' : 'model.py'}.`,
    ...(isChat ? [`The weights stay in ${path.resolve(file)}. Without a large GPU: make a GGUF of the folder.`] : []),
    ...(missing === null ? [] : [`Install what it needs:  ${missing.command}`]),
    ...nextSteps({ repository, flags: interpreterFlags(backend, python) }),
  ].join('\n')
}

async function copyParts({ folder, files }: HuggingFaceFolder, version: string): Promise<void> {
  const program = path.join(templatesPath(), 'huggingface/my_model/1/model.py')
  for (const [source, target] of [
    [program, 'model.py'] as const,
    ...files.map((each) => [path.join(folder, each), each] as const),
  ]) {
    await mkdir(path.dirname(path.join(version, target)), { recursive: true })
    // File systems that can, share the blocks: weights are large.
    await copyFile(source, path.join(version, target), constants.COPYFILE_FICLONE)
  }
}

const hasScores = ({ task }: HuggingFaceFolder): boolean =>
  task === 'text-classification' || task === 'image-classification'

const oneLine = (label: string): string => label.replaceAll(/\s+/g, ' ').trim()

function folderConfigText(name: string, found: HuggingFaceFolder, wanted: number | null): string {
  const head = [
    `# ${found.architecture} of Hugging Face for ${found.task}: written by galatea init; 'galatea check' explains mistakes in it.`,
    `name: ${quotedText(name)}`,
  ]
  if (found.task === 'chat') {
    return [...head, 'backend: "vllm"', '', "# 1/model.json has the arguments of vLLM's engine.", ''].join('\n')
  }
  const isPicture = found.task === 'image-classification'
  const size = wanted ?? defaultMaxBatchSize
  const dims = (...sizes: number[]): string => `dims: [ ${[...(size > 0 ? [] : [-1]), ...sizes].join(', ')} ]`
  return [
    ...head,
    'backend: "python"',
    '',
    '# Rows that one run may have. The first dimension of every tensor is the batch: it is not part of dims below.',
    `max_batch_size: ${size}`,
    '',
    ...(isPicture ? ['# Whole files: JPEG, PNG and what else Pillow reads.'] : []),
    `input { name: "${isPicture ? 'IMAGE' : 'TEXT'}" data_type: TYPE_STRING ${dims(1)} }`,
    ...outputLines(found, dims),
    '',
    '# Requests that arrive together are run together, up to max_batch_size rows.',
    `${size > 1 ? '' : '# '}dynamic_batching { }`,
    '',
    ...predictLines(found, name),
    '# The Python environment with torch and transformers; without it, that of the server.',
    '# parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/path/to/venv" } }',
    '',
  ].join('\n')
}

function outputLines({ task, labels, width }: HuggingFaceFolder, dims: (...sizes: number[]) => string): string[] {
  if (task === 'embedding') return [`output { name: "EMBEDDING" data_type: TYPE_FP32 ${dims(width)} }`]
  if (task === 'token-classification') {
    return [
      '# JSON: [{"label": "PER", "start": 0, "end": 4, "score": 0.99, "text": "Anna"}, …]',
      `output { name: "ENTITIES" data_type: TYPE_STRING ${dims(1)} }`,
    ]
  }
  return [
    `output { name: "LABEL" data_type: TYPE_STRING ${dims(1)} }`,
    `output { name: "SCORES" data_type: TYPE_FP32 ${dims(labels.length)} label_filename: "labels.txt" }`,
  ]
}

function predictLines(found: HuggingFaceFolder, name: string): string[] {
  if (!hasScores(found)) return []
  const kind = found.task === 'image-classification' ? 'image' : 'text'
  return [
    `# POST /v2/models/${oneLine(name)}/predict takes a file.`,
    `parameters { key: "predict" value { string_value: "${kind}" } }`,
    'parameters { key: "predict.output" value { string_value: "SCORES" } }',
    '',
  ]
}
