// `galatea init model.onnx --repository ./models --name m`: makes a model folder from a model file, from a folder of Hugging Face or
// from a template.

import { constants } from 'node:fs'
import { copyFile, cp, mkdir, rename, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { nearestWord } from '../base/nearest-word.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { modelMetadata } from '../config/model-metadata.ts'
import { readOnnxFile, type OnnxFile } from '../onnx-file/onnx-file.ts'
import { parseModelConfigText } from '../repository/text-format-reader.ts'
import { modelNameProblem } from '../repository/model-name.ts'
import { askCommand, pathPart } from './ask-command.ts'
import { ggufConfigText } from './described-gguf.ts'
import { describeModel, UndescribedModel } from './described-model.ts'
import { isHuggingFaceFolder } from './hugging-face-folder.ts'
import { inStaging } from './in-staging.ts'
import { initHuggingFace } from './init-hugging-face.ts'
import { initTemplate, templateNamed } from './init-template.ts'
import { configText, unfinishedConfigText } from './init-config-text.ts'
import type { CommandIo } from './command-io.ts'
import { bareName, formatOf } from './model-format.ts'
import { templateNames } from './model-templates.ts'
import { interpreterFlags, nextSteps } from './next-steps.ts'
import { printable } from './printable.ts'

const usage = `Usage: galatea init MODEL --repository PATH [options]
       galatea init --template NAME [--repository PATH] [options]

Makes PATH/<name>/1/<model file> and a PATH/<name>/config.pbtxt with comments. Weights in external files come along. Where the
format does not tell what the model takes and gives (TorchScript), the configuration is one to finish by hand.
A MODEL that is a folder of Hugging Face (config.json, *.safetensors, a tokenizer) gets a model.py that serves it.

  --template NAME        a small model that serves, to begin with: ${templateNames.join(', ')}
  --repository PATH      where models are served from; made when it is not there (with --template: ./models when left out)
  --name NAME            the model's name (default: the file's, or its folder's when the file is called model; the template's)
  --max-batch-size N     rows that may be run together; 0: no batching (default: 4 where the model allows it)
  --force                replace the files of a model that is already there
  --python PROGRAM       the Python that has the framework, for all formats but ONNX (default python3)
  --allow-pickle-models  read pickles (scikit-learn), which runs any code that is in them
  --help

Exit status: 0, or 1 when nothing was made.
`

type InitSettings = {
  file: string
  template: string
  repository: string
  name: string
  maxBatchSize: number | null
  isForced: boolean
  python: string
  allowsPickles: boolean
}

/** Resolves with the exit status. */
export async function runInit(args: readonly string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    io.stdout(usage)
    return 0
  }
  try {
    const settings = parseArguments(args)
    if (settings.template !== '') {
      io.stdout(await initTemplate(settings))
      return 0
    }
    if (isHuggingFaceFolder(settings.file)) {
      io.stdout(await initHuggingFace(settings))
      return 0
    }
    const { config, file, text, backend, isFinished } = await makeModel(settings)
    io.stdout(`Made ${config} and ${file}.\n`)
    if (!isFinished) io.stdout('The file does not tell its types and dims: put them into config.pbtxt.\n')
    const flags = hasPython(backend) ? interpreterFlags(backend, settings.python) : []
    if (settings.allowsPickles) flags.push('--allow-pickle-models')
    const ask = isFinished ? askFor(settings.name, backend, text) : ''
    io.stdout(nextSteps({ repository: settings.repository, flags, ask }).join('\n'))
    return 0
  } catch (reason) {
    io.stderr(`galatea init: ${printable(messageOf(reason))}\n`)
    return 1
  }
}

const hasPython = (backend: string): boolean => backend !== 'onnxruntime' && backend !== 'llamacpp'

/** The command that asks the new model. The configuration is read as the server reads it. */
function askFor(name: string, backend: string, text: string): string {
  const url = 'localhost:8000'
  if (backend === 'llamacpp') return `curl ${url}/v2/models/${pathPart(name)}/generate -d '{"text_input":"Hello"}'`
  return askCommand(url, name, modelMetadata(parseModelConfigText(text).config, []).inputs)
}

const flags = [
  '--template',
  '--repository',
  '--model-repository',
  '--name',
  '--max-batch-size',
  '--force',
  '--python',
  '--allow-pickle-models',
  '--help',
]

function parseArguments(args: readonly string[]): InitSettings {
  const settings: InitSettings = {
    file: '',
    template: '',
    repository: '',
    name: '',
    maxBatchSize: null,
    isForced: false,
    python: 'python3',
    allowsPickles: false,
  }
  for (let index = 0; index < args.length; index++) {
    const argument = args[index] ?? ''
    const [name = '', inline] = argument.split(/=(.*)/s)
    const value = (): string => {
      const text = inline ?? args[++index]
      if (text === undefined || text === '') throw refusal(`option '${name}' needs a value`)
      return text
    }
    if (!argument.startsWith('-')) {
      if (settings.file !== '') throw refusal(`one model file at a time, got '${settings.file}' and '${argument}'`)
      settings.file = argument
    } else if (name === '--repository' || name === '--model-repository') settings.repository = value()
    else if (name === '--template') settings.template = templateNamed(value())
    else if (name === '--name') settings.name = value()
    else if (name === '--force') settings.isForced = true
    else if (name === '--python') settings.python = value()
    else if (name === '--allow-pickle-models') settings.allowsPickles = true
    else if (name === '--max-batch-size') settings.maxBatchSize = batchSize(value())
    else {
      const near = nearestWord(name, flags)
      throw refusal(`there is no option '${name}'${near === null ? '' : `; did you mean '${near}'?`}`)
    }
  }
  if (settings.template !== '') {
    if (settings.file !== '')
      throw refusal(`a model file or a --template, got '${settings.file}' and '${settings.template}'`)
    if (settings.maxBatchSize !== null)
      throw refusal('--max-batch-size is for a model file; a template has its own in config.pbtxt')
    settings.repository ||= 'models'
    settings.name ||= settings.template
    return settings
  }
  if (settings.file === '')
    throw refusal(
      'name the model file: galatea init model.onnx --repository ./models; or begin with a template: galatea init --template python',
    )
  if (settings.repository === '') throw refusal('say where the models are: --repository ./models')
  if (settings.name === '') settings.name = nameOf(settings.file)
  const problem = modelNameProblem(settings.name)
  if (problem !== null) throw refusal(`${problem}; choose one with --name`)
  return settings
}

const refusal = (message: string): ServerError => new ServerError('INVALID_ARG', message)

function batchSize(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw refusal(`--max-batch-size must be a whole number from 0, got '${text}'`)
  return Number(text)
}

/** `resnet.onnx` → resnet; `…/resnet/model.onnx` and `…/resnet/1/model.onnx` → resnet. */
function nameOf(file: string): string {
  const parts = path.resolve(file).split(path.sep)
  const base = bareName(file)
  if (base !== 'model') return base
  const folders = parts.slice(0, -1).filter((part) => !/^\d+$/.test(part))
  return folders.at(-1) ?? base
}

type MadeModel = {
  readonly config: string
  readonly file: string
  readonly text: string
  readonly backend: string
  readonly isFinished: boolean
}

async function makeModel(settings: InitSettings): Promise<MadeModel> {
  const { backend, fileName } = formatOf(settings.file)
  const plan = await planModel(settings, backend)
  const folder = path.join(settings.repository, settings.name)
  const isThere = (await stat(folder).catch(() => null)) !== null
  if (isThere && !settings.isForced) {
    throw refusal(`'${folder}' is already there; choose another --name, or replace it with --force`)
  }
  // The files of a model that is there are replaced one by one: others may lie beside them.
  if (isThere) await writeModel(folder, fileName, plan, settings)
  else {
    await inStaging(settings.repository, '.init-', async (staging) => {
      const made = path.join(staging, settings.name)
      await writeModel(made, fileName, plan, settings)
      await rename(made, folder)
    })
  }
  const { text, isFinished } = plan
  return {
    config: path.join(folder, 'config.pbtxt'),
    file: path.join(folder, '1', fileName),
    text,
    backend,
    isFinished,
  }
}

async function writeModel(
  folder: string,
  fileName: string,
  { text, external }: ModelPlan,
  { file, isForced }: InitSettings,
): Promise<void> {
  const versionFolder = path.join(folder, '1')
  await mkdir(versionFolder, { recursive: true })
  const mode = isForced ? 0 : constants.COPYFILE_EXCL
  for (const [source, location] of external) {
    const target = path.join(versionFolder, location)
    await mkdir(path.dirname(target), { recursive: true })
    await copyUnlessSame(source, target, mode)
  }
  await copyUnlessSame(file, path.join(versionFolder, fileName), mode)
  await writeFile(path.join(folder, 'config.pbtxt'), text, { flag: isForced ? 'w' : 'wx' })
}

type ExternalFile = readonly [source: string, location: string]
type ModelPlan = { readonly text: string; readonly external: readonly ExternalFile[]; readonly isFinished: boolean }

async function planModel(settings: InitSettings, backend: string): Promise<ModelPlan> {
  const { file, name, maxBatchSize } = settings
  if (backend === 'onnxruntime') {
    const model = await readOnnxFile(file)
    const text = configText(name, backend, model, maxBatchSize)
    return { text, external: await externalFiles(file, model), isFinished: true }
  }
  if (backend === 'llamacpp') return { text: await ggufConfigText(name, file), external: [], isFinished: true }
  try {
    const text = configText(
      name,
      backend,
      await describeModel(backend, file, { command: 'galatea init', ...settings }),
      maxBatchSize,
    )
    return { text, external: await weightsBeside(file), isFinished: true }
  } catch (reason) {
    if (!(reason instanceof UndescribedModel)) throw reason
    return { text: unfinishedConfigText(name, reason.config), external: [], isFinished: false }
  }
}

/** OpenVINO keeps the weights of model.xml in a model.bin. */
async function weightsBeside(file: string): Promise<ExternalFile[]> {
  if (path.extname(file) !== '.xml') return []
  const weights = `${file.slice(0, -'.xml'.length)}.bin`
  return (await stat(weights).catch(() => null)) === null ? [] : [[weights, 'model.bin']]
}

/** With --force the source may be the file that is already in the repository. */
async function copyUnlessSame(source: string, target: string, mode: number): Promise<void> {
  const [from, to] = await Promise.all([stat(source), stat(target).catch(() => null)])
  if (to !== null && from.ino === to.ino && from.dev === to.dev) return
  if (from.isDirectory()) await cp(source, target, { recursive: true })
  else await copyFile(source, target, mode)
}

/** [source, target] of each file with weights. A path that leaves the model's folder is refused. */
async function externalFiles(file: string, model: OnnxFile): Promise<ExternalFile[]> {
  const found: ExternalFile[] = []
  for (const location of model.externalFiles) {
    const normal = path.normalize(location)
    if (path.isAbsolute(normal) || normal === '..' || normal.startsWith(`..${path.sep}`) || normal.includes('\0')) {
      throw refusal(
        `the model wants its weights from '${location}', outside its own folder; export it with them beside it`,
      )
    }
    const source = path.join(path.dirname(file), normal)
    if ((await stat(source).catch(() => null))?.isFile() !== true) {
      throw refusal(`the model's weights are missing: put '${location}' beside '${file}'`)
    }
    found.push([source, normal])
  }
  return found
}
