// `galatea inspect model.onnx`: prints the description in a model file.

import { nearestWord } from '../base/nearest-word.ts'
import { messageOf } from '../base/server-error.ts'
import { readOnnxFile, type OnnxFile, type OnnxFileTensor } from '../onnx-file/onnx-file.ts'
import { describeModel, type DescribeSettings } from './described-model.ts'
import { describeGguf } from './described-gguf.ts'
import type { CommandIo } from './command-io.ts'
import { formatOf } from './model-format.ts'
import { printable } from './printable.ts'
import { textTable } from './text-table.ts'

const usage = `Usage: galatea inspect MODEL [options]

Shows names, types, shapes, size and whatever else a model file says about itself. ONNX files are read without loading them,
so this works for files of any size. The files of a framework are read by its own Python package.

  --json                   the same as JSON
  --python PROGRAM         the Python that has the framework (default python3)
  --allow-pickle-models    read pickles (scikit-learn), which runs any code that is in them
  --help

Formats: .onnx .gguf .pt .pt2 .savedmodel .graphdef .xml .skops .joblib .pkl .ubj .json .txt
Exit status: 0, or 1 when the file cannot be read or does not tell.
`

/** Resolves with the exit status. */
export async function runInspect(args: readonly string[], io: CommandIo): Promise<number> {
  const settings = { command: 'galatea inspect', python: 'python3', allowsPickles: false, isJson: false }
  const files: string[] = []
  for (let index = 0; index < args.length; index++) {
    const argument = args[index] ?? ''
    const [name = '', inline] = argument.split(/=(.*)/s)
    if (!argument.startsWith('-')) files.push(argument)
    else if (name === '--help' || name === '-h') {
      io.stdout(usage)
      return 0
    } else if (name === '--json') settings.isJson = true
    else if (name === '--allow-pickle-models') settings.allowsPickles = true
    else if (name === '--python') settings.python = inline ?? args[++index] ?? ''
    else return refuse(io, unknownOption(name))
  }
  const [file] = files
  if (file === undefined) return refuse(io, 'name the model file: galatea inspect model.onnx')
  if (files.length > 1) return refuse(io, 'one model file at a time')
  try {
    io.stdout(await inspection(file, settings))
    return 0
  } catch (reason) {
    io.stderr(`galatea inspect: ${printable(messageOf(reason))}\n`)
    return 1
  }
}

async function inspection(file: string, settings: DescribeSettings & { readonly isJson: boolean }): Promise<string> {
  const { backend } = formatOf(file)
  if (backend === 'onnxruntime') {
    const model = await readOnnxFile(file)
    return settings.isJson ? inspectionJson(model) : inspectionText(file, model)
  }
  const model = backend === 'llamacpp' ? await describeGguf(file) : await describeModel(backend, file, settings)
  if (settings.isJson) return `${JSON.stringify({ backend, ...model }, null, 2)}\n`
  const facts: [string, string][] = [
    ['file', file],
    ['backend', backend],
  ]
  for (const [name, value] of Object.entries(model.facts)) facts.push([name, String(value)])
  return `${factLines(facts)}\n${tensorTable('Input', model.inputs)}${tensorTable('Output', model.outputs)}`
}

function refuse(io: CommandIo, complaint: string): number {
  io.stderr(`galatea inspect: ${complaint}\nRun 'galatea inspect --help' for its options.\n`)
  return 1
}

function unknownOption(name: string): string {
  const near = nearestWord(name, ['--json', '--python', '--allow-pickle-models', '--help'])
  return `there is no option '${name}'${near === null ? '' : `; did you mean '${near}'?`}`
}

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
  const optional = model.optionalInputs.map((tensor) => ({ ...tensor, typeText: `${tensor.typeText} (optional)` }))
  const inputs = tensorTable('Input', [...model.inputs, ...optional])
  const outputs = tensorTable('Output', model.outputs)
  const metadata = [...model.metadata].map(([key, value]) =>
    [key, value.length > 80 ? `${value.slice(0, 77)}...` : value].map(printable),
  )
  const table = metadata.length === 0 ? '' : textTable(['Metadata', 'Value'], metadata)
  return `${factLines(facts)}\n${inputs}${outputs}${table}`
}

const factLines = (facts: readonly (readonly [string, string])[]): string =>
  facts
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name.padEnd(15)} ${printable(value)}\n`)
    .join('')

const tensorTable = (role: string, tensors: readonly OnnxFileTensor[]): string =>
  textTable(
    [role, 'Type', 'Shape'],
    tensors.map((tensor) => [tensor.name, tensor.typeText, shapeWords(tensor)].map(printable)),
  )

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
