// A TorchServe archive: a .mar (a zip file), a .tar.gz, or a folder. Unpacked, it is the version folder of a model whose backend is
// `torchserve`.

import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { FileTextError, parseFileText } from '../../base/file-text.ts'
import { runProgram } from '../../base/run-program.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { PreparedArchive, TorchArchive, TorchModelSettings, TorchServing } from '../../model/torch-archive.ts'
import { requireRelativePath } from '../cloud/safe-name.ts'
import { refusedArchive, type ArchiveLimits } from '../cloud/unpack-archive.ts'
import { unpackIntoFolder } from '../cloud/unpack-into-folder.ts'
import { servingOf } from './torch-config-text.ts'

type Preparation = {
  readonly limits: ArchiveLimits
  /** The Python that installs requirements; '' installs none. */
  readonly python: string
  /** What the call says that registers the archive. */
  readonly given: Partial<TorchServing>
  /** Where neither the call nor the archive says anything. */
  readonly defaults: Partial<TorchServing>
  /** In place of the name in the manifest; left out or '': that. */
  readonly name?: string
  readonly settings?: TorchModelSettings
}

/** More files than any archive of a model has. */
export const mostArchiveEntries = 100_000
/** How long `pip install` of one archive may take. */
const longestInstallMs = 600_000
/** Of what `pip install` says. */
const mostErrorText = 2000
const mostManifestBytes = 1024 * 1024
/** A larger Python file is not searched for the function that sends pieces. */
const mostSourceBytes = 8 * 1024 * 1024
/** Of models and versions. The name of a model is that of its folder. */
const mostNameLength = 255
const manifestPath = 'MAR-INF/MANIFEST.json'
const pieceFunction = 'send_intermediate_predict_response'

/** Unpacks into a folder that exists and is empty. Throws INVALID_ARG for an archive that cannot be served. */
export async function prepareTorchArchive(
  file: string,
  folder: string,
  { limits, python, given, defaults, name = '', settings = {} }: Preparation,
): Promise<PreparedArchive> {
  await unpackIntoFolder(file, folder, limits, manifestPath)
  const archive = await readArchive(folder, path.basename(file), name)
  const { requirementsFile } = archive
  if (python !== '' && requirementsFile !== '') await installRequirements(python, folder, requirementsFile)
  const known = servingOf(archive, given, defaults, memberOf(memberOf(settings, archive.name), archive.version))
  const serving = { ...known, handler: given.handler || archive.handler || known.handler }
  if (serving.handler === '') throw refusedArchive(path.basename(file), 'its manifest names no handler')
  await writeSettings(folder, archive, serving)
  return { archive, serving }
}

/** Installs the packages that an archive asks for into its own folder, where only its handler sees them. */
async function installRequirements(python: string, folder: string, file: string): Promise<void> {
  const failed = (reason: string): ServerError =>
    ServerError.withoutStack('INVALID_ARG', `Custom pip package installation failed for ${file}: ${reason}`)
  const args = ['-m', 'pip', 'install', '--no-input', '--upgrade', '--target', folder, '-r', path.join(folder, file)]
  const running = runProgram(python, args, mostErrorText, { timeout: longestInstallMs, killSignal: 'SIGKILL' })
  const { code, signal, stderr } = await running.catch((reason: unknown) => Promise.reject(failed(messageOf(reason))))
  if (code !== 0) throw failed(signal === null ? stderr.trim() : `it took longer than ${longestInstallMs / 1000} s`)
}

/** What the worker needs beside the manifest, for each version. */
async function writeSettings(folder: string, archive: TorchArchive, serving: TorchServing): Promise<void> {
  const { handler, serviceEnvelope, decodesInput, batchSize } = serving
  const settings = { handler, serviceEnvelope, decodesInput, batchSize, modelYamlConfig: archive.config }
  const file = path.join(folder, 'MAR-INF', 'galatea.json')
  await mkdir(path.dirname(file), { recursive: true })
  // The archive may have something of this name.
  await rm(file, { recursive: true, force: true })
  await writeFile(file, `${JSON.stringify(settings, null, 2)}\n`)
}

/** As TorchServe: an archive without a manifest has the name that the call says, or that of its file. */
async function readArchive(folder: string, name: string, asked: string): Promise<TorchArchive> {
  const manifest = existsSync(path.join(folder, manifestPath)) ? await readObject(folder, manifestPath, name) : null
  const model = objectOf(manifest?.['model'])
  const text = (key: string): string => (typeof model[key] === 'string' ? model[key] : '')
  const ownName = manifest === null ? path.parse(name).name.replaceAll(/\W/g, '_') : text('modelName')
  const modelName = asked === '' ? ownName : asked
  if (asked === '' && (!/^[A-Za-z][\w.-]*$/.test(modelName) || modelName.length > mostNameLength)) {
    const rule = `no name of at most ${mostNameLength} letters, digits, _ - and .`
    throw refusedArchive(name, `the modelName in its manifest is missing, or is ${rule}`)
  }
  const version = text('modelVersion') === '' ? '1.0' : text('modelVersion')
  if (version.length > mostNameLength || /\p{Cc}/u.test(version)) {
    const rule = `is longer than ${mostNameLength}, or has control characters`
    throw refusedArchive(name, `the modelVersion in its manifest ${rule}`)
  }
  const config = text('configFile') === '' ? {} : await readObject(folder, text('configFile'), name)
  const requirementsFile = text('requirementsFile')
  if (requirementsFile !== '') requireRelativePath(requirementsFile, `the manifest of ${name}`)
  const runtime = typeof manifest?.['runtime'] === 'string' ? manifest['runtime'] : 'python'
  const answersInPieces = await mentionsPieces(folder)
  return { name: modelName, version, runtime, handler: text('handler'), config, requirementsFile, answersInPieces }
}

/** The object in the manifest, which is JSON, or in the file of YAML that it names. */
async function readObject(folder: string, file: string, name: string): Promise<Readonly<Record<string, unknown>>> {
  const place = path.join(folder, requireRelativePath(file, `the manifest of ${name}`))
  const found = await stat(place).catch(() => null)
  if (found?.isFile() !== true) throw refusedArchive(name, `it has no ${file}`)
  if (found.size > mostManifestBytes) {
    throw refusedArchive(name, `${path.basename(file)} has more than ${mostManifestBytes} bytes`)
  }
  try {
    return objectOf(parseFileText(await readFile(place, 'utf8'), file === manifestPath ? 'json' : 'yaml').value)
  } catch (reason) {
    if (reason instanceof FileTextError) throw refusedArchive(name, `${file}: ${reason.message}`)
    throw reason
  }
}

/** Whether a Python file of the archive uses TorchServe's function for answers in pieces. */
async function mentionsPieces(folder: string): Promise<boolean> {
  for (const entry of await readdir(folder, { recursive: true })) {
    if (!entry.endsWith('.py')) continue
    const file = path.join(folder, entry)
    const found = await stat(file)
    if (found.isFile() && found.size <= mostSourceBytes && (await readFile(file, 'utf8')).includes(pieceFunction))
      return true
  }
  return false
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}

const memberOf = (value: object, name: string): Record<string, unknown> =>
  Object.hasOwn(value, name) ? objectOf((value as Record<string, unknown>)[name]) : {}
