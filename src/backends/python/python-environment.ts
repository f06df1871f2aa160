// Finds the Python for a model: the server's, a packed environment, or one made from the model's requirements.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { userCacheFolder } from '../../base/user-cache-folder.ts'
import type { ModelFiles } from '../../model/backend.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { PythonSettings } from './python-settings.ts'

export type PythonEnvironment = { readonly executable: string; readonly environment: NodeJS.ProcessEnv }

export class PythonEnvironments {
  readonly #log: Log
  readonly #interpreter: string
  /** What every process gets; an environment of a model adds to it. */
  readonly #environment: NodeJS.ProcessEnv
  readonly #cacheDirectory: string
  /** Each environment is made once, also when several models and instances ask at the same time. */
  readonly #made = new Map<string, Promise<string>>()
  /** The real program of a command, as its processes reported: a version manager's shim costs 0.1 s at each start. */
  readonly #realExecutables = new Map<string, string>()

  constructor(
    log: Log,
    { interpreter, environmentDirectory: cacheDirectory }: Pick<PythonSettings, 'interpreter' | 'environmentDirectory'>,
    environment: NodeJS.ProcessEnv,
  ) {
    this.#log = log
    this.#environment = environment
    this.#interpreter = interpreter
    this.#cacheDirectory = cacheDirectory || userCacheFolder()
  }

  /** `backendArchive`: the environment that a Python-based backend ships beside its model.py, '' for none. */
  async find(config: ModelConfig, files: ModelFiles, backendArchive: string): Promise<PythonEnvironment> {
    const configured = readParameter(config, 'EXECUTION_ENV_PATH') ?? backendArchive
    if (configured !== '') {
      const place = path.resolve(configured.replaceAll('$$TRITON_MODEL_DIRECTORY', () => files.modelDirectory))
      return this.#environmentIn(await this.#packedEnvironment(place, config.name))
    }
    if (readParameter(config, 'AUTO_INSTALL_REQUIREMENTS') === true) {
      return this.#environmentIn(await this.#requirementsEnvironment(config.name, files))
    }
    const executable = this.#realExecutables.get(this.#interpreter) ?? this.#interpreter
    return { executable, environment: this.#environment }
  }

  /** A name may be a shim, which takes long to find its Python. A path is what somebody chose, perhaps a script that sets variables. */
  learn(used: PythonEnvironment, realExecutable: string): void {
    const isName = !this.#interpreter.includes(path.sep)
    if (isName && used.executable === this.#interpreter) this.#realExecutables.set(this.#interpreter, realExecutable)
  }

  async #packedEnvironment(place: string, modelName: string): Promise<string> {
    this.#log.info(`Using Python execution env ${place}`, { model: modelName })
    const entry = await fs.stat(place).catch(() => null)
    if (entry === null) {
      this.#log.warning('EXECUTION_ENV_PATH must name an archive or a folder that is there', { model: modelName })
      throw new ServerError('INTERNAL', `Failed to get the canonical path for ${place}.`)
    }
    if (entry.isDirectory()) return place
    const key = digest(`${place}\n${entry.mtimeMs}\n${entry.size}`)
    return this.#once(`environment-${key}`, async (folder) => {
      this.#log.info('unpacking execution environment', { model: modelName, archive: place })
      await this.#run('tar', ['-xf', place, '-C', folder], modelName)
      // conda-pack's own repair of absolute paths, where the archive brings it.
      const unpack = path.join(folder, 'bin', 'conda-unpack')
      if (await exists(unpack)) await this.#run(path.join(folder, 'bin', 'python'), [unpack], modelName)
    })
  }

  async #requirementsEnvironment(modelName: string, files: ModelFiles): Promise<string> {
    const file = await firstExisting([
      path.join(files.versionDirectory, 'requirements.txt'),
      path.join(files.modelDirectory, 'requirements.txt'),
      path.join(files.versionDirectory, 'pyproject.toml'),
      path.join(files.modelDirectory, 'pyproject.toml'),
    ])
    if (file === null) {
      throw new ServerError(
        'INTERNAL',
        `AUTO_INSTALL_REQUIREMENTS of model '${modelName}': there is no requirements.txt or pyproject.toml in ` +
          `'${files.modelDirectory}'`,
      )
    }
    const text = await fs.readFile(file, 'utf8')
    const key = digest(`${this.#interpreter}\n${file.endsWith('.toml') ? path.dirname(file) : ''}\n${text}`)
    return this.#once(`requirements-${key}`, async (folder) => {
      this.#log.info('installing python requirements', { model: modelName, file })
      await this.#run(this.#interpreter, ['-m', 'venv', folder], modelName)
      const what = file.endsWith('.toml') ? [path.dirname(file)] : ['-r', file]
      const pip = ['-m', 'pip', 'install', '--disable-pip-version-check', '--progress-bar=off', 'numpy', ...what]
      await this.#run(path.join(folder, binFolder, 'python'), pip, modelName)
    })
  }

  /** The folder of this name in the cache. It is made in a temporary folder and renamed when it is complete. */
  #once(name: string, make: (folder: string) => Promise<void>): Promise<string> {
    let made = this.#made.get(name)
    if (made === undefined) {
      made = this.#make(name, make)
      this.#made.set(name, made)
      // A failure is not remembered: the next load tries again.
      made.catch(() => this.#made.delete(name))
    }
    return made
  }

  async #make(name: string, make: (folder: string) => Promise<void>): Promise<string> {
    const folder = path.join(this.#cacheDirectory, name)
    if (await exists(folder)) return folder
    await fs.mkdir(this.#cacheDirectory, { recursive: true })
    const draft = await fs.mkdtemp(`${folder}.`)
    try {
      await make(draft)
      await fs.rename(draft, folder)
      return folder
    } catch (reason) {
      await fs.rm(draft, { recursive: true, force: true })
      // Another server made the same folder first, and it can be used.
      if (await exists(folder)) return folder
      throw reason
    }
  }

  async #environmentIn(folder: string): Promise<PythonEnvironment> {
    const bin = path.join(folder, binFolder)
    const executable = await firstExisting([
      path.join(bin, 'python3'),
      path.join(bin, 'python'),
      path.join(bin, 'python.exe'),
    ])
    if (executable === null) {
      throw new ServerError('INTERNAL', `execution environment '${folder}' has no ${path.join(binFolder, 'python3')}`)
    }
    const environment: NodeJS.ProcessEnv = {
      ...this.#environment,
      PATH: `${bin}${path.delimiter}${this.#environment['PATH'] ?? ''}`,
      VIRTUAL_ENV: folder,
      CONDA_PREFIX: folder,
      LD_LIBRARY_PATH: [path.join(folder, 'lib'), this.#environment['LD_LIBRARY_PATH']]
        .filter(Boolean)
        .join(path.delimiter),
    }
    // PYTHONHOME is set for the server's own Python and would be wrong for this one.
    delete environment['PYTHONHOME']
    return { executable, environment }
  }

  #run(command: string, commandArguments: readonly string[], modelName: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const installing = Object.entries(process.env).filter(([name]) => installerNames.test(name))
      const env = { ...this.#environment, ...Object.fromEntries(installing) }
      const child = spawn(command, commandArguments, { stdio: ['ignore', 'pipe', 'pipe'], env })
      let lastLines = ''
      const onText = (text: string): void => {
        lastLines = (lastLines + text).slice(-2000)
        for (const line of text.split('\n'))
          if (line.trim() !== '') this.#log.info(line.trimEnd(), { model: modelName })
      }
      child.stdout.setEncoding('utf8').on('data', onText)
      child.stderr.setEncoding('utf8').on('data', onText)
      const fail = (reason: string): void => {
        const line = [command, ...commandArguments].join(' ')
        reject(new ServerError('INTERNAL', `environment of model '${modelName}': '${line}' failed: ${reason}`))
      }
      child.once('error', (error) => fail(messageOf(error)))
      child.once('close', (code) => {
        if (code === 0) resolve()
        else fail(`exit code ${code}: ${lastWords(lastLines)}`)
      })
    })
  }
}

/** What pip says besides its reason, often at length. */
const besides = /^(?:ERROR: Ignored the following|WARNING: |\[notice\])/

/** The reason is in the last line that a program writes, so it comes first. */
export function lastWords(output: string): string {
  const lines = output.trim().split('\n')
  const telling = lines.filter((line) => !besides.test(line))
  return (telling.length === 0 ? lines : telling).slice(-3).toReversed().join(' | ')
}

/** pip also needs to know the way to its index. */
const installerNames = /^(?:PIP_|UV_|SSL_CERT_|REQUESTS_CA_BUNDLE)|^(?:https?|no|all)_proxy$/i

const binFolder = process.platform === 'win32' ? 'Scripts' : 'bin'

const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 24)

const exists = (file: string): Promise<boolean> =>
  fs.access(file).then(
    () => true,
    () => false,
  )

async function firstExisting(candidates: readonly string[]): Promise<string | null> {
  for (const candidate of candidates) if (await exists(candidate)) return candidate
  return null
}
