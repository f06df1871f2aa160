// `galatea init model.onnx --repository ./models --name m`: a model folder that serves, made from a model file.

import { constants } from 'node:fs'
import { copyFile, mkdir, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { nearestWord } from '../base/nearest-word.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { readOnnxFile, type OnnxFile } from '../model/onnx-file.ts'
import { modelNameProblem } from '../repository/model-name.ts'
import { configText } from './init-config-text.ts'
import { printable } from './inspect.ts'
import type { CommandIo } from './main.ts'

const usage = `Usage: galatea init MODEL.onnx --repository PATH [options]

Makes PATH/<name>/1/model.onnx and a PATH/<name>/config.pbtxt with comments. Weights in external files come along.

  --repository PATH      where models are served from; made when it is not there
  --name NAME            the model's name (default: the file's, or its folder's when the file is called model.onnx)
  --max-batch-size N     rows that may be run together; 0: no batching (default: 4 where the model allows it)
  --force                replace the files of a model that is already there
  --help

Exit status: 0, or 1 when nothing was made.
`

type InitSettings = {
  file: string
  repository: string
  name: string
  maxBatchSize: number | null
  isForced: boolean
}

/** Resolves with the exit status. */
export async function runInit(args: readonly string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    io.stdout(usage)
    return 0
  }
  try {
    const settings = parseArguments(args)
    const folder = await makeModel(settings)
    io.stdout(
      `Made ${path.join(folder, 'config.pbtxt')} and ${path.join(folder, '1', 'model.onnx')}.\n` +
        `Serve it with: galatea --model-repository ${settings.repository}\n`,
    )
    return 0
  } catch (reason) {
    io.stderr(`galatea init: ${printable(messageOf(reason))}\n`)
    return 1
  }
}

const flags = ['--repository', '--model-repository', '--name', '--max-batch-size', '--force', '--help']

function parseArguments(args: readonly string[]): InitSettings {
  const settings: InitSettings = { file: '', repository: '', name: '', maxBatchSize: null, isForced: false }
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
    else if (name === '--name') settings.name = value()
    else if (name === '--force') settings.isForced = true
    else if (name === '--max-batch-size') settings.maxBatchSize = batchSize(value())
    else {
      const near = nearestWord(name, flags)
      throw refusal(`there is no option '${name}'${near === null ? '' : `; did you mean '${near}'?`}`)
    }
  }
  if (settings.file === '') throw refusal('name the model file: galatea init model.onnx --repository ./models')
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
  const base = path.basename(file).replace(/\.onnx$/i, '')
  if (base !== 'model') return base
  const folders = parts.slice(0, -1).filter((part) => !/^\d+$/.test(part))
  return folders.at(-1) ?? base
}

async function makeModel(settings: InitSettings): Promise<string> {
  const model = await readOnnxFile(settings.file)
  const text = configText(settings.name, model, settings.maxBatchSize)
  const external = await externalFiles(settings.file, model)
  const folder = path.join(settings.repository, settings.name)
  if (!settings.isForced && (await stat(folder).catch(() => null)) !== null) {
    throw refusal(`'${folder}' is already there; choose another --name, or replace it with --force`)
  }
  const versionFolder = path.join(folder, '1')
  await mkdir(versionFolder, { recursive: true })
  const mode = settings.isForced ? 0 : constants.COPYFILE_EXCL
  for (const [source, location] of external) {
    const target = path.join(versionFolder, location)
    await mkdir(path.dirname(target), { recursive: true })
    await copyUnlessSame(source, target, mode)
  }
  await copyUnlessSame(settings.file, path.join(versionFolder, 'model.onnx'), mode)
  await writeFile(path.join(folder, 'config.pbtxt'), text, { flag: settings.isForced ? 'w' : 'wx' })
  return folder
}

/** With --force the source may be the very file that is served already. */
async function copyUnlessSame(source: string, target: string, mode: number): Promise<void> {
  const [from, to] = await Promise.all([stat(source), stat(target).catch(() => null)])
  if (to !== null && from.ino === to.ino && from.dev === to.dev) return
  await copyFile(source, target, mode)
}

/** [where it is, where it goes] of each file with weights. A path that leaves the model's folder is refused. */
async function externalFiles(file: string, model: OnnxFile): Promise<[source: string, location: string][]> {
  const found: [string, string][] = []
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
