// Finds models in one or more repositories, reads their configurations and brings them to the point where a backend can
// complete them. Never runs a model. A repository is a folder of this machine or a place in S3, Google Cloud Storage or Azure:
// the RepositoryStore hides the difference, and `localise` brings a model's files to this machine.

import { join } from 'node:path'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { isEnsemble } from '../config/known-backends.ts'
import { emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import { modelKey, modelLabel, splitModelKey, type ModelKey } from '../model/model-key.ts'
import { normaliseModelConfig } from '../config/normalise-model-config.ts'
import { validatePolledConfig } from '../config/validate-model-config.ts'
import { completeBackendFields } from './backend-detection.ts'
import { withoutSecrets } from './cloud/cloud-location.ts'
import { refuseOutsideModelFiles } from './config-file-names.ts'
import { ConfigTextThread } from './config-text-thread.ts'
import { configHints, errorHints, firstHints, layoutHints, modelFolderRemark } from './hints.ts'
import { readModelLayout, type LayoutEntry, type ModelLayout } from './model-layout.ts'
import { modelNameProblem } from './model-name.ts'
import { readModelText } from './model-text-file.ts'
import { refuseOutsidePaths } from './network-config.ts'
import type { RepositoryStore } from './repository-store.ts'
import { TextFormatError } from './text-format-error.ts'
import { isVersionName } from './version-policy.ts'

export type ModelRepositoryOptions = {
  /** Folders, and addresses such as `s3://bucket/models`. */
  readonly roots: readonly string[]
  /** `--model-config-name`; '' for none. */
  readonly modelConfigName: string
  readonly isAutoCompleteDisabled: boolean
  /** `--model-namespacing`: the same name in two repositories is two models. */
  readonly hasModelNamespacing?: boolean
}

/** A model that cannot even be tried. The reason is logged; hints are for people and never go on the wire. */
export type FailedPoll = {
  readonly name: string
  /** See `modelKey`. */
  readonly namespace?: string | undefined
  readonly error: ServerError
  readonly hints: readonly string[]
}

export type FoundModel = {
  readonly name: string
  /** See `modelKey`. */
  readonly namespace?: string | undefined
  readonly error: null
  /** Normalised and valid as far as it can be judged before a backend has completed it. A fresh object per poll. */
  readonly config: ModelConfig
  /** On this machine, wherever the repository is. */
  readonly modelDirectory: string
  readonly repositoryPath: string
  /** All version folders, ascending. */
  readonly versions: readonly string[]
  /** Changes when any of the model's files does. */
  readonly fingerprint: string
  /** A fingerprint of each version's folder alone, and under '' one of what all versions share, configurations left out. */
  readonly partFingerprints?: ReadonlyMap<string, string>
  /** By path inside the model's folder. */
  readonly files?: ReadonlyMap<string, LayoutEntry>
  /** Bytes of files by version; under '' the bytes of what all versions share. */
  readonly partBytes?: ReadonlyMap<string, number>
  readonly hints: readonly string[]
}

export type PolledModel = FailedPoll | FoundModel

export const keyOfModel = ({ namespace, name }: PolledModel): ModelKey => modelKey(namespace, name)

export const duplicateModelReason = 'model appears in two or more repositories'
export const configFileName = 'config.pbtxt'
export const configLimitBytes = 4 * 1024 * 1024
const parallelPolls = 16
/** Folders that file systems and tools make; Triton would try to load them. Names with a leading dot are left out too. */
const notModels: ReadonlySet<string> = new Set(['lost+found', '__pycache__'])

type PollOptions = {
  /** Stands in for the model's configuration file. */
  readonly override?: ModelConfig | null
  readonly isExact?: boolean
  /** The files came with a load request, the configuration file among them too. */
  readonly isUpload?: boolean
}

export class ModelRepository {
  readonly #log: Log
  readonly #store: RepositoryStore
  readonly #options: ModelRepositoryOptions
  readonly #configTexts = new ConfigTextThread()
  /** What was last logged per model: a poll every few seconds must not repeat the same lines. */
  #logged = new Map<string, string>()

  constructor(deps: { readonly log: Log; readonly store: RepositoryStore }, options: ModelRepositoryOptions) {
    this.#log = deps.log.from('model-repository.ts')
    this.#store = deps.store
    this.#options = options
  }

  /** Every model of every repository, by key. Throws INTERNAL when a repository itself cannot be read. */
  async poll(): Promise<PolledModel[]> {
    const roots = await this.#rootsByModel()
    const keys = [...roots.keys()].sort()
    const polled: PolledModel[] = []
    for (let start = 0; start < keys.length; start += parallelPolls) {
      const some = keys.slice(start, start + parallelPolls)
      polled.push(...(await Promise.all(some.map((key) => this.#pollIn(key, roots.get(key) ?? [])))))
    }
    const logged = new Map<string, string>()
    for (const model of polled) {
      const text = model.error?.message ?? model.hints.join('\n')
      const key = keyOfModel(model)
      if (this.#logged.get(key) !== text) this.#report(model)
      logged.set(key, text)
    }
    this.#logged = logged
    return polled
  }

  /** Every model's name, with namespaces its key, sorted, whatever state it is in. */
  async names(): Promise<ModelKey[]> {
    return [...(await this.#rootsByModel()).keys()].sort()
  }

  /** The models that are in two or more repositories: nobody can load them. */
  async duplicates(): Promise<ReadonlySet<ModelKey>> {
    if (this.#options.roots.length < 2) return new Set()
    const several = [...(await this.#rootsByModel())].filter(([, roots]) => roots.length > 1)
    return new Set(several.map(([key]) => key))
  }

  /** The models that a name, or a name with its namespace, stands for. Without namespaces a name is its own key. */
  async keysOf(name: string): Promise<ModelKey[]> {
    if (this.#options.hasModelNamespacing !== true) return [name]
    const namespace = this.#options.roots.map(namespaceOf).find((one) => name.startsWith(`${one}::`))
    if (namespace !== undefined) return [modelKey(namespace, name.slice(namespace.length + 2))]
    return (await this.#rootsOf(name)).map((root) => modelKey(namespaceOf(root), name))
  }

  /** One model; null when no repository has it, or can have it by that name. `override` stands in for its configuration file. */
  async pollOne(key: ModelKey, override: ModelConfig | null = null): Promise<PolledModel | null> {
    const { namespace, name } = this.#split(key)
    if (modelNameProblem(name) !== null) return null
    const found = await this.#rootsOf(name)
    const roots = namespace === undefined ? found : found.filter((root) => namespaceOf(root) === namespace)
    if (roots.length === 0) return null
    const polled = await this.#pollIn(key, roots, { override, isExact: true })
    this.#report(polled)
    return polled
  }

  /** A model in a folder that is in none of the repositories: `<root>/<name>`, made from files a client sent. */
  async pollDirectory(key: ModelKey, root: string, override: ModelConfig | null): Promise<PolledModel> {
    const polled = await this.#pollIn(key, [root], { override, isExact: true, isUpload: true })
    this.#report(polled)
    return polled
  }

  /** A NUL that a client has put into a name is part of the name, and refused as such. */
  #split(key: ModelKey): ReturnType<typeof splitModelKey> {
    return this.#options.hasModelNamespacing === true ? splitModelKey(key) : { namespace: undefined, name: key }
  }

  async #rootsOf(name: string): Promise<string[]> {
    const roots: string[] = []
    for (const root of this.#options.roots) {
      if ((await modelFolders(this.#store, root)).includes(name)) roots.push(root)
    }
    return roots
  }

  async #rootsByModel(): Promise<Map<ModelKey, string[]>> {
    const found = new Map<ModelKey, string[]>()
    for (const root of this.#options.roots) {
      const namespace = this.#options.hasModelNamespacing === true ? namespaceOf(root) : undefined
      for (const name of await modelFolders(this.#store, root)) {
        const key = modelKey(namespace, name)
        found.set(key, [...(found.get(key) ?? []), root])
      }
    }
    return found
  }

  async #pollIn(
    key: ModelKey,
    roots: readonly string[],
    { override = null, isExact = false, isUpload = false }: PollOptions = {},
  ): Promise<PolledModel> {
    const { namespace, name } = this.#split(key)
    const [root = ''] = roots
    let hints: readonly string[] = []
    try {
      if (roots.length > 1) throw duplicateModel(name, roots)
      const layout = await readModelLayout(this.#store, root, name, { isExact })
      const remark = isVersionName(name) ? await modelFolderRemark(this.#store, root) : null
      if (remark !== null) throw new ServerError('INVALID_ARG', `${remark.what}: ${remark.fix}`)
      hints = firstHints(layoutHints(layout, false))
      const outside = layout.firstOutside()
      if (outside !== null) await this.#store.stat(root, `${name}/${outside}`)
      const device = layout.firstDevice()
      if (device !== null) throw deviceInside(join(root, name, device))
      const config = override === null ? await this.#readConfig(name, root, layout) : structuredClone(override)
      if (this.#store.renames?.(root) === true) config.name = name
      hints = firstHints([...layoutHints(layout, isEnsemble(config)), ...configHints(config, layout)])
      completeBackendFields(config, name, this.#filesOfFirstVersion(layout))
      normaliseModelConfig(config)
      validatePolledConfig(config, this.#options)
      refuseOutsideModelFiles(config, layout)
      if (config.name !== name) throw wrongName(config.name, name)
      const versions = layout.versions()
      const modelDirectory = await this.#store.localise(root, name)
      if (override !== null) {
        const ownConfig = isUpload ? null : await this.#readConfig(name, root, layout).catch(() => null)
        await refuseOutsidePaths(config, { modelDirectory, versions, ownConfig })
      }
      return {
        name,
        namespace,
        error: null,
        config,
        modelDirectory,
        repositoryPath: root,
        versions,
        fingerprint: layout.fingerprint,
        partFingerprints: layout.partFingerprints,
        files: layout.entries,
        partBytes: layout.partBytes,
        hints,
      }
    } catch (reason) {
      const error = ServerError.from(reason)
      return { name, namespace, error, hints: [...errorHints(error), ...hints] }
    }
  }

  async #readConfig(name: string, root: string, layout: ModelLayout): Promise<ModelConfig> {
    const path = chooseConfigFile(layout, this.#options.modelConfigName)
    if (path === null && !this.#options.isAutoCompleteDisabled) return emptyModelConfig()
    const text = await readModelText(this.#store, root, join(name, path ?? configFileName), configLimitBytes)
    try {
      return await this.#configTexts.read(text)
    } catch (reason) {
      if (!(reason instanceof TextFormatError)) throw reason
      const what = `failed to read text proto from ${join(root, name, path ?? configFileName)}`
      throw new ServerError('INTERNAL', what, { cause: reason })
    }
  }

  /** The first version in alphabetical order, as in Triton; that version need not have the lowest number. */
  #filesOfFirstVersion(layout: ModelLayout): ReturnType<ModelLayout['children']> {
    const [first] = layout.versions().sort()
    return first === undefined ? new Map() : layout.children(first)
  }

  #report(model: PolledModel): void {
    const label = modelLabel(keyOfModel(model))
    if (model.error !== null) {
      const { cause } = model.error
      if (cause instanceof TextFormatError) {
        this.#log.error(`Error parsing text-format inference.ModelConfig: ${cause.message}`)
      }
      this.#log.error(`Poll failed for model directory '${label}': ${model.error.message}`)
    }
    for (const hint of model.hints) this.#log.warning(`hint for model '${label}': ${hint}`)
  }
}

/** Clients see a namespace in errors and metrics, so it must not hold secrets. */
export const namespaceOf = (root: string): string => withoutSecrets(root)

/** What keeps a repository from being read, and what was meant. */
function whyUnread(reason: unknown): string {
  const meant = 'A repository is the folder that holds the folders of models'
  if (reason instanceof ServerError && reason.code === 'NOT_FOUND') return `there is no such folder. ${meant}`
  const text = messageOf(reason)
  return text.includes('ENOTDIR') ? `it is a file. ${meant}` : text
}

/** Names of the folders of a repository that are models. Throws INTERNAL when the repository cannot be read. */
export async function modelFolders(store: RepositoryStore, root: string): Promise<string[]> {
  const entries = await store.list(root, '').catch((reason: unknown) => {
    throw new ServerError('INTERNAL', `failed to stat file ${root}\n${whyUnread(reason)}`, { cause: reason })
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

/** Whoever opens it may wait for ever, in a thread that all of the server shares. */
const deviceInside = (path: string): ServerError =>
  new ServerError('INVALID_ARG', `'${path}' is a pipe or a device, expected a file or a folder: remove it`)

const wrongName = (configName: string, directoryName: string): ServerError =>
  new ServerError(
    'INVALID_ARG',
    `unexpected directory name '${directoryName}' for model '${configName}', directory name must equal model name`,
  )
