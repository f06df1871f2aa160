// `galatea inspect model.onnx`: what a model file says about itself, without loading it.

import { nearestWord } from '../base/nearest-word.ts'
import { messageOf } from '../base/server-error.ts'
import { readOnnxFile, type OnnxFile, type OnnxFileTensor } from '../model/onnx-file.ts'
import type { CommandIo } from './main.ts'
import { textTable } from './text-table.ts'

const usage = `Usage: galatea inspect MODEL.onnx [--json]

Shows names, types, shapes, operator sets, size and metadata of a model file. The model is not loaded, so this works for
files of any size and for models that this machine could not run.

  --json    the same as JSON
  --help

Exit status: 0, or 1 when the file cannot be read.
`

/** Resolves with the exit status. */
export async function runInspect(args: readonly string[], io: CommandIo): Promise<number> {
  const files = args.filter((argument) => !argument.startsWith('-'))
  const flags = args.filter((argument) => argument.startsWith('-'))
  if (flags.includes('--help') || flags.includes('-h')) {
    io.stdout(usage)
    return 0
  }
  const unknown = flags.find((flag) => flag !== '--json')
  const [file] = files
  if (unknown !== undefined || file === undefined || files.length > 1) {
    io.stderr(`galatea inspect: ${complaint(unknown, files.length)}\nRun 'galatea inspect --help' for its options.\n`)
    return 1
  }
  try {
    const model = await readOnnxFile(file)
    io.stdout(flags.includes('--json') ? inspectionJson(model) : inspectionText(file, model))
    return 0
  } catch (reason) {
    io.stderr(`galatea inspect: ${printable(messageOf(reason))}\n`)
    return 1
  }
}

function complaint(unknown: string | undefined, fileCount: number): string {
  if (unknown !== undefined) {
    const near = nearestWord(unknown, ['--json', '--help'])
    return `there is no option '${unknown}'${near === null ? '' : `; did you mean '${near}'?`}`
  }
  return fileCount === 0 ? 'name the model file: galatea inspect model.onnx' : 'one model file at a time'
}

/** Names in a file are anybody's: what a terminal would obey is shown, not sent. */
export const printable = (text: string): string =>
  text.replaceAll(/\p{Cc}/gu, (character) =>
    character === '\n' ? character : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )

export const shapeWords = ({ shape }: OnnxFileTensor): string =>
  shape === null ? 'any' : `[${shape.map((dim) => dim ?? '?').join(', ')}]`

function inspectionText(file: string, model: OnnxFile): string {
  const facts: [string, string][] = [
    ['file', file],
    ['size', byteWords(model.fileBytes)],
    ['graph', model.graphName],
    ['made by', [model.producerName, model.producerVersion].filter(Boolean).join(' ')],
    ['IR version', String(model.irVersion)],
    ['operator sets', model.opsets.map(({ domain, version }) => `${domain} ${version}`).join(', ')],
    ['nodes', `${model.nodeCount} (${operatorWords(model)})`],
    ['weights', `${model.initializerCount} tensors, ${byteWords(model.initializerBytes)}`],
    ['external files', model.externalFiles.join(', ')],
    ['model version', model.modelVersion === 0 ? '' : String(model.modelVersion)],
    ['description', model.description.slice(0, 400)],
  ]
  const lines = facts
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name.padEnd(15)} ${printable(value)}\n`)
  const rows = (tensors: readonly OnnxFileTensor[], note = ''): string[][] =>
    tensors.map((tensor) => [tensor.name, tensor.typeText + note, shapeWords(tensor)].map(printable))
  const inputs = textTable(
    ['Input', 'Type', 'Shape'],
    [...rows(model.inputs), ...rows(model.optionalInputs, ' (optional)')],
  )
  const outputs = textTable(['Output', 'Type', 'Shape'], rows(model.outputs))
  const metadata = [...model.metadata].map(([key, value]) =>
    [key, value.length > 80 ? `${value.slice(0, 77)}...` : value].map(printable),
  )
  const table = metadata.length === 0 ? '' : textTable(['Metadata', 'Value'], metadata)
  return `${lines.join('')}\n${inputs}${outputs}${table}`
}

function operatorWords({ operators }: OnnxFile): string {
  const sorted = [...operators].sort(([a, i], [b, j]) => j - i || a.localeCompare(b))
  const shown = sorted.slice(0, 8).map(([name, count]) => (count === 1 ? name : `${count} ${name}`))
  return [...shown, ...(sorted.length > 8 ? [`${sorted.length - 8} more kinds`] : [])].join(', ')
}

export function byteWords(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return unit === 0 ? `${bytes} bytes` : `${value.toFixed(1)} ${units[unit]}`
}

const inspectionJson = (model: OnnxFile): string => {
  const plain = {
    ...model,
    operators: Object.fromEntries(model.operators),
    metadata: Object.fromEntries(model.metadata),
  }
  return `${JSON.stringify(plain, null, 2)}\n`
}
