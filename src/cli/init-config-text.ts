// The config.pbtxt that `galatea init` writes from the model file, with comments for people who see such a file for the
// first time. Pure.

import { ServerError } from '../base/server-error.ts'
import { notCarried } from '../onnx-file/not-carried.ts'
import type { OnnxFileTensor } from '../onnx-file/onnx-file.ts'
import { configDataType } from '../tensor/data-type.ts'

const defaultMaxBatchSize = 4

type DescribedTensors = { readonly inputs: readonly OnnxFileTensor[]; readonly outputs: readonly OnnxFileTensor[] }

/** `wanted` is max_batch_size; null: 4 when the model can batch, else 0. Throws when the model cannot have it. */
export function configText(name: string, backend: string, model: DescribedTensors, wanted: number | null): string {
  for (const tensor of [...model.inputs, ...model.outputs]) {
    if (tensor.dataType !== null) continue
    throw new ServerError('UNSUPPORTED', notCarried(tensor.name, tensor.typeText))
  }
  const fixed = [...model.inputs, ...model.outputs].find((tensor) => !isOpen(tensor.shape?.[0]))
  if (fixed !== undefined && wanted !== null && wanted > 0) {
    const shape = fixed.shape === null ? 'no shape' : `shape [${fixed.shape.join(', ')}]`
    throw new ServerError(
      'INVALID_ARG',
      `the model cannot batch: '${fixed.name}' has ${shape}, its first dimension must be open; leave --max-batch-size out or export the model with a dynamic first axis`,
    )
  }
  const maxBatchSize = wanted ?? (fixed === undefined ? defaultMaxBatchSize : 0)
  const isBatching = maxBatchSize > 0
  return [
    headLine(name),
    `name: ${quotedText(name)}`,
    `backend: "${backend}"`,
    '',
    ...batchComment(isBatching),
    `max_batch_size: ${maxBatchSize}`,
    '',
    ...tensorBlock('input', model.inputs, isBatching),
    ...tensorBlock('output', model.outputs, isBatching),
    '# Requests that arrive together are run together, up to max_batch_size rows.',
    ...commentedUnless(isBatching && maxBatchSize > 1, 'dynamic_batching { }'),
    '',
    ...tips(backend),
    '',
  ].join('\n')
}

/** For a format that does not describe its tensors: a first text, which the user must correct. */
export const unfinishedConfigText = (name: string, config: string): string =>
  `${headLine(name)}\n# The types and dims are guesses, the file does not tell them: put the model's own here.\n${config}`

const headLine = (name: string): string =>
  `# ${oneLine(name)}: written by galatea init; 'galatea check' explains mistakes in it.`

const tips = (backend: string): string[] =>
  backend === 'onnxruntime'
    ? [
        '# How many requests run at the same time. They share the weights.',
        '# instance_group [ { count: 2 kind: KIND_CPU } ]',
        '',
        '# Threads of one run; without it, one per physical core.',
        '# parameters { key: "intra_op_thread_count" value { string_value: "1" } }',
      ]
    : [
        '# How many requests run at the same time. Each instance is a process of its own.',
        '# instance_group [ { count: 2 kind: KIND_CPU } ]',
        '',
        '# The Python environment with the framework; without it, that of the server.',
        '# parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/path/to/venv" } }',
      ]

const isOpen = (dim: number | string | null | undefined): boolean => dim === null || typeof dim === 'string'

const batchComment = (isBatching: boolean): string[] =>
  isBatching
    ? ['# Rows that one run may have. The first dimension of every tensor is the batch: it is not part of dims below.']
    : ['# 0: the model does not batch, and dims below are the whole shapes.']

const commentedUnless = (isActive: boolean, line: string): string[] => [isActive ? line : `# ${line}`]

function tensorBlock(role: 'input' | 'output', tensors: readonly OnnxFileTensor[], isBatching: boolean): string[] {
  // The file has no shape, so ONNX Runtime must find it: the server fills the list in when it loads the model.
  if (tensors.some((tensor) => tensor.shape === null)) {
    return [`# The file gives no shape for every ${role}: the list is filled in when the model is loaded.`, '']
  }
  const entries = tensors.map((tensor) => tensorEntry(tensor, isBatching))
  return [`${role} [`, entries.join(',\n'), ']', '']
}

function tensorEntry({ name, dataType, shape }: OnnxFileTensor, isBatching: boolean): string {
  const dims = (shape ?? []).slice(isBatching ? 1 : 0)
  const names = dims.filter((dim) => typeof dim === 'string')
  const lines = names.length === 0 ? [] : [`    # -1 is any size: ${oneLine(names.join(', '))}`]
  const sizes = dims.map((dim) => (typeof dim === 'number' ? dim : -1))
  lines.push(
    `    name: ${quotedText(name)}`,
    `    data_type: ${dataType === null ? 'TYPE_INVALID' : configDataType(dataType)}`,
    sizes.length === 0 ? '    dims: [ 1 ]' : `    dims: [ ${sizes.join(', ')} ]`,
  )
  // The model's tensor is a scalar; on the wire it is one element.
  if (sizes.length === 0) lines.push('    reshape { shape: [ ] }')
  return `  {\n${lines.join('\n')}\n  }`
}

/** What is no letter, digit, sign or plain space: it is not seen, or moves what stands beside it. */
const unreadable = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu

const oneLine = (text: string): string => text.replaceAll(unreadable, '?')

/** A string of the text format. What people cannot read becomes octal escapes of its UTF-8 bytes. */
export const quotedText = (text: string): string =>
  `"${text.replaceAll(/["\\]/g, '\\$&').replaceAll(unreadable, octalEscapes)}"`

const octalEscapes = (character: string): string =>
  [...Buffer.from(character)].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
