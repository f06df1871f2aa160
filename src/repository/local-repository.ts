// Finds models in one or more repositories, reads their configurations and brings them to the point where a backend can
// complete them. Never runs a model.

import { join } from 'node:path'
import type { Log } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import { isEnsemble } from '../model/known-backends.ts'
import { emptyModelConfig, type ModelConfig } from '../model/model-config.ts'
import { normalisePolledConfig } from '../model/normalise-model-config.ts'
import { validatePolledConfig } from '../model/validate-model-config.ts'
import { completeBackendFields } from './backend-detection.ts'
import { configHints, errorHints, layoutHints } from './hints.ts'
import { readModelLayout, type ModelLayout } from './model-layout.ts'
import { modelNameProblem } from './model-name.ts'
import { readModelText } from './model-text-file.ts'
import type { RepositoryStore } from './repository-store.ts'
import { TextFormatError } from './text-format-error.ts'
import { parseModelConfigText } from './text-format-reader.ts'

export type LocalRepositoryOptions = {
  readonly roots: readonly string[]
  /** `--model-config-name`; '' for none. */
  readonly modelConfigName: string
  readonly isAutoCompleteDisabled: boolean
}

/** A model that cannot even be tried. The reason is logged; hints are for people and never go on the wire. */
export type FailedPoll = {
  readonly name: string
  readonly error: ServerError
  readonly hints: readonly string[]
}

export type FoundModel = {
  readonly name: string
  readonly error: null
  /** Normalised and valid as far as it can be judged before a backend has completed it. A fresh object per poll. */
  readonly config: ModelConfig
  readonly modelDirectory: string
  readonly repositoryPath: string
  /** All version folders, ascending. */
  readonly versions: readonly string[]
  /** Changes when any of the model's files does. */
  readonly fingerprint: string
  readonly hints: readonly string[]
}

export type PolledModel = FailedPoll | FoundModel

export const duplicateModelReason = 'model appears in two or more repositories'
export const configFileName = 'config.pbtxt'
const configLimitBytes = 4 * 1024 * 1024
const parallelPolls = 16
/** Folders that file systems and tools make; Triton would try to load them. Names with a leading dot are left out too. */
const notModels: ReadonlySet<string> = new Set(['lost+found', '__pycache__'])

export class LocalRepository {
  readonly #log: Log
  readonly #store: RepositoryStore
  readonly #options: LocalRepositoryOptions
  /** What was last logged per model: polling every few seconds must not repeat itself. */
  #logged = new Map<string, string>()

  constructor(deps: { readonly log: Log; readonly store: RepositoryStore }, options: LocalRepositoryOptions) {
    this.#log = deps.log.from('local-repository.ts')
    this.#store = deps.store
    this.#options = options
  }

  /** Every model of every repository, by name. Throws INTERNAL when a repository itself cannot be read. */
  async poll(): Promise<PolledModel[]> {
    const roots = await this.#rootsByModel()
    const names = [...roots.keys()].sort()
    const polled: PolledModel[] = []
    for (let start = 0; start < names.length; start += parallelPolls) {
      const some = names.slice(start, start + parallelPolls)
      polled.push(...(await Promise.all(some.map((name) => this.#pollIn(name, roots.get(name) ?? [])))))
    }
    const logged = new Map<string, string>()
    for (const model of polled) {
      const text = model.error?.message ?? model.hints.join('\n')
      if (this.#logged.get(model.name) !== text) this.#report(model)
      logged.set(model.name, text)
    }
    this.#logged = logged
    return polled
  }

  /** Every model's name, sorted, whatever state it is in. */
  async names(): Promise<string[]> {
    return [...(await this.#rootsByModel()).keys()].sort()
  }

  /** One model, by name; null when no repository has it. `override` stands in for its configuration file. */
  async pollOne(name: string, override: ModelConfig | null = null): Promise<PolledModel | null> {
    const nameProblem = modelNameProblem(name)
    if (nameProblem !== null) return { name, error: new ServerError('INVALID_ARG', nameProblem), hints: [] }
    const roots: string[] = []
    for (const root of this.#options.roots) {
      if ((await modelFolders(this.#store, root)).includes(name)) roots.push(root)
    }
    if (roots.length === 0) return null
    const polled = await this.#pollIn(name, roots, override)
    this.#report(polled)
    return polled
  }

  /** A model in a folder that is in none of the repositories: `<root>/<name>`, made from files a client sent. */
  async pollDirectory(name: string, root: string, override: ModelConfig | null): Promise<PolledModel> {
    const polled = await this.#pollIn(name, [root], override)
    this.#report(polled)
    return polled
  }

  async #rootsByModel(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>()
    for (const root of this.#options.roots) {
      for (const name of await modelFolders(this.#store, root)) found.set(name, [...(found.get(name) ?? []), root])
    }
    return found
  }

  async #pollIn(name: string, roots: readonly string[], override: ModelConfig | null = null): Promise<PolledModel> {
    const [root = ''] = roots
    let hints: string[] = []
    try {
      if (roots.length > 1) throw duplicateModel(name, roots)
      const layout = await readModelLayout(this.#store, root, name)
      hints = layoutHints(layout, false)
      const outside = layout.firstOutside()
      if (outside !== null) await this.#store.stat(root, `${name}/${outside}`)
      const config = override === null ? await this.#readConfig(name, root, layout) : structuredClone(override)
      hints = [...layoutHints(layout, isEnsemble(config)), ...configHints(config)]
      completeBackendFields(config, name, this.#filesOfFirstVersion(layout))
      normalisePolledConfig(config)
      validatePolledConfig(config, this.#options)
      if (config.name !== name) throw wrongName(config.name, name)
      return {
        name,
        error: null,
        config,
        modelDirectory: join(root, name),
        repositoryPath: root,
        versions: layout.versions(),
        fingerprint: layout.fingerprint,
        hints,
      }
    } catch (reason) {
      const error = ServerError.from(reason)
      return { name, error, hints: [...errorHints(error), ...hints] }
    }
  }

  async #readConfig(name: string, root: string, layout: ModelLayout): Promise<ModelConfig> {
    const path = chooseConfigFile(layout, this.#options.modelConfigName)
    if (path === null && !this.#options.isAutoCompleteDisabled) return emptyModelConfig()
    const text = await readModelText(this.#store, root, join(name, path ?? configFileName), configLimitBytes)
    try {
      return parseModelConfigText(text).config
    } catch (reason) {
      if (!(reason instanceof TextFormatError)) throw reason
      const what = `failed to read text proto from ${join(root, name, path ?? configFileName)}`
      throw new ServerError('INTERNAL', what, { cause: reason })
    }
  }

  /** Triton looks at the first in alphabetical order, which need not be the lowest number. */
  #filesOfFirstVersion(layout: ModelLayout): ReturnType<ModelLayout['children']> {
    const [first] = layout.versions().sort()
    return first === undefined ? new Map() : layout.children(first)
  }

  #report(model: PolledModel): void {
    if (model.error !== null) {
      const { cause } = model.error
      if (cause instanceof TextFormatError) {
        this.#log.error(`Error parsing text-format inference.ModelConfig: ${cause.message}`)
      }
      this.#log.error(`Poll failed for model directory '${model.name}': ${model.error.message}`)
    }
    for (const hint of model.hints) this.#log.warning(`hint for model '${model.name}': ${hint}`)
  }
}

/** Names of the folders of a repository that are models. Throws INTERNAL when the repository cannot be read. */
export async function modelFolders(store: RepositoryStore, root: string): Promise<string[]> {
  const entries = await store.list(root, '').catch((reason: unknown) => {
    throw new ServerError('INTERNAL', `failed to stat file ${root}`, { cause: reason })
  })
  return entries
    .filter(({ name, kind }) => kind === 'directory' || (kind === 'outside' && !name.includes('.')))
    .map(({ name }) => name)
    .filter((name) => !name.startsWith('.') && !notModels.has(name))
}

/** The configuration file to read, inside the model's folder; null when there is none. */
export function chooseConfigFile(layout: ModelLayout, modelConfigName: string): string | null {
  const named = `configs/${modelConfigName}.pbtxt`
  if (modelConfigName !== '' && layout.hasFile(named)) return named
  return layout.hasFile(configFileName) ? configFileName : null
}

function duplicateModel(name: string, roots: readonly string[]): ServerError {
  const cause = new Error(`'${name}' is in ${roots.map((root) => `'${root}'`).join(' and ')}`)
  return new ServerError('INVALID_ARG', duplicateModelReason, { cause })
}

const wrongName = (configName: string, directoryName: string): ServerError =>
  new ServerError(
    'INVALID_ARG',
    `unexpected directory name '${directoryName}' for model '${configName}', directory name must equal model name`,
  )
