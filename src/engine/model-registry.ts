// What is known of every model in the repositories: what people say about it, what it is made of, how it serves, and who
// changed it last.

import { ServerError } from '../base/server-error.ts'
import { modelKey, modelLabel, splitModelKey, type ModelKey } from '../model/model-key.ts'
import type {
  DetailedIndexEntry,
  RegisteredModel,
  RegisteredVersion,
  RegistryPage,
  RegistryQuery,
} from '../model/registered-model.ts'
import { fieldsOfVersion, type RegistryValue } from '../model/registry-entry.ts'
import type { ContentIndex } from '../repository/content-index.ts'
import {
  noRegistryRecord,
  versionFolders,
  type RegistryReader,
  type RegistryRecord,
} from '../repository/registry-reader.ts'
import { versionContent } from '../repository/version-content.ts'
import { compareVersions } from '../repository/version-policy.ts'
import type { AuditJson } from '../telemetry/audit-entry.ts'
import type { AuditLog } from '../telemetry/audit-log.ts'
import type { IndexEntry } from './serving/index-entry.ts'
import type { ServedModel } from './serving/served-model.ts'
import { canonicalVersion } from './serving/version-text.ts'

type RegistryDependencies = {
  readonly models: ReadonlyMap<string, ServedModel>
  /** Null: there are no folders to look at. */
  readonly reader: RegistryReader | null
  readonly contents: ContentIndex
  readonly audit: AuditLog
  /** Every model in the repositories. */
  keys(): Promise<ModelKey[]>
  /** The models that a name stands for: with namespaces any number of them. */
  keysOf(name: string): Promise<readonly ModelKey[]>
  index(isReadyOnly: boolean): Promise<IndexEntry[]>
}

/** How many registry files are read at a time. */
const parallelReads = 16

export class ModelRegistry {
  readonly #dependencies: RegistryDependencies

  constructor(dependencies: RegistryDependencies) {
    this.#dependencies = dependencies
  }

  /** Everything about a model; content that is not known yet is read first. Throws NOT_FOUND. */
  async describe(name: string): Promise<RegisteredModel> {
    const model = await this.#describe(await this.#keyOf(name), true)
    if (model === null) throw unknown(`'${name}' is not found`)
    return model
  }

  /** Everything about one version of a model. Throws NOT_FOUND. */
  async describeVersion(
    name: string,
    version: string,
  ): Promise<{ model: RegisteredModel; version: RegisteredVersion }> {
    const model = await this.describe(name)
    const wanted = canonicalVersion(version)
    const found = model.versions.find((one) => one.version === wanted)
    if (found === undefined) throw unknown(`'${name}' version ${wanted} is not found`)
    return { model, version: found }
  }

  /** The models that fit the query, by name, a page at a time. `isVisible` null: all models may be found. */
  async search(query: RegistryQuery, isVisible: ((name: string) => boolean) | null = null): Promise<RegistryPage> {
    const known = await this.#dependencies.keys()
    const seen = isVisible === null ? known : known.filter((key) => isVisible(splitModelKey(key).name))
    const keys = seen.sort((a, b) => (modelLabel(a) < modelLabel(b) ? -1 : 1))
    const fitting: ModelKey[] = []
    for (let start = 0; start < keys.length; start += parallelReads) {
      const some = keys.slice(start, start + parallelReads)
      const records = await Promise.all(some.map((key) => this.#record(key)))
      fitting.push(...some.filter((key, index) => fits(query, modelLabel(key), records[index] ?? noRegistryRecord)))
    }
    const rest = fitting.filter((key) => modelLabel(key) > query.after)
    const page = rest.slice(0, query.limit)
    const models = await Promise.all(page.map((key) => this.#describe(key, false)))
    const last = page.at(-1)
    return {
      models: models.filter((model) => model !== null),
      total: fitting.length,
      next: rest.length > page.length && last !== undefined ? modelLabel(last) : null,
    }
  }

  /** The index with what is known about each row; nothing is read for it but registry files. */
  async detailedIndex(isReadyOnly: boolean): Promise<DetailedIndexEntry[]> {
    const rows = await this.#dependencies.index(isReadyOnly)
    const described = new Map<string, RegisteredModel | null>()
    const entries: DetailedIndexEntry[] = []
    for (const row of rows) {
      const key = modelKey(row.namespace, row.name)
      const model = described.get(key) ?? (await this.#describe(key, false))
      described.set(key, model)
      const details = model?.versions.find(({ version }) => version === row.version) ?? null
      const reason = row.reason === '' && row.version === '' ? (model?.reason ?? '') : row.reason
      entries.push({ ...row, reason, details, fields: details?.fields ?? model?.fields ?? {} })
    }
    return entries
  }

  /** A key of the model's registry file that the registry itself does not know; null: there is none. */
  async extra(name: string, key: string): Promise<RegistryValue> {
    const { entry } = await this.#record(await this.#keyOf(name))
    return entry.fields.extra?.[key] ?? null
  }

  /** What an hour of an instance costs, of the models whose registry file says so. */
  async prices(): Promise<Map<string, { readonly instanceHour: number }>> {
    const prices = new Map<string, { readonly instanceHour: number }>()
    const keys = [...this.#dependencies.models.keys()]
    for (let start = 0; start < keys.length; start += parallelReads) {
      const some = keys.slice(start, start + parallelReads)
      const records = await Promise.all(some.map((key) => this.#record(key)))
      for (const [i, { entry }] of records.entries()) {
        if (entry.fields.cost !== undefined) prices.set(splitModelKey(some[i] as ModelKey).name, entry.fields.cost)
      }
    }
    return prices
  }

  /** The last changes of a model, newest first. Throws NOT_FOUND when nobody has heard of it. */
  async history(name: string, limit: number): Promise<readonly AuditJson[]> {
    const key = await this.#keyOf(name)
    const entries = this.#dependencies.audit.history(modelLabel(key), limit)
    if (entries.length === 0 && (await this.#describe(key, false)) === null) throw unknown(`'${name}' is not found`)
    return entries
  }

  /** Throws INVALID_ARG for a name that stands for several. */
  async #keyOf(name: string): Promise<ModelKey> {
    const keys = await this.#dependencies.keysOf(name)
    if (keys.length <= 1) return keys[0] ?? name
    const labels = keys.map((key) => `'${modelLabel(key)}'`).join(', ')
    throw ServerError.withoutStack('INVALID_ARG', `'${name}' stands for several models, ask for one of them: ${labels}`)
  }

  #record(key: ModelKey): Promise<RegistryRecord> {
    const upload = this.#dependencies.models.get(key)?.from.upload ?? null
    return this.#dependencies.reader?.read(key, upload?.root ?? null) ?? Promise.resolve(noRegistryRecord)
  }

  /** Null when neither the server nor a repository knows the model. `isExact` reads files to know their content. */
  async #describe(key: ModelKey, isExact: boolean): Promise<RegisteredModel | null> {
    const served = this.#dependencies.models.get(key)
    const directory = (await this.#dependencies.reader?.directoryOf(key)) ?? null
    if (served === undefined && directory === null && !(await this.#dependencies.keys()).includes(key)) return null
    const { file, entry, problems } = await this.#record(key)
    const { namespace = '', name } = splitModelKey(key)
    const rows = new Map(served?.versionEntries().map((row) => [row.version, row]))
    // A model that came with a load request has nothing to do with the folder of that name.
    const folders = directory === null || served?.from.upload ? [] : await versionFolders(directory)
    const versions: RegisteredVersion[] = []
    for (const version of [...new Set([...rows.keys(), ...folders])].sort(compareVersions)) {
      const { state = '', reason = '' } = rows.get(version) ?? {}
      const living = served?.ready.find((one) => one.version === version)
      let content = living?.content ?? null
      if (isExact) {
        content = living === undefined ? null : await living.contentKnown
        if (living === undefined && directory !== null && folders.includes(version)) {
          content = await versionContent(this.#dependencies.contents, `${directory}/${version}`)
        }
      }
      versions.push({
        version,
        state,
        reason,
        content,
        loadedMs: living?.readyMs ?? null,
        memoryBytes: living?.memoryBytes ?? 0,
        fields: fieldsOfVersion(entry, version),
      })
    }
    return {
      name,
      namespace,
      fields: entry.fields,
      file,
      problems: problems.map(({ message, fix }) => (fix === '' ? message : `${message}; ${fix}`)),
      override: served?.from.upload ? 'files' : served?.from.override ? 'config' : '',
      reason: rows.size === 0 ? (served?.failure ?? '') : '',
      versions,
    }
  }
}

function fits(query: RegistryQuery, name: string, { entry }: RegistryRecord): boolean {
  // A version may have an owner and tags of its own.
  const all = [entry.fields, ...entry.versions.values()]
  if (query.owner !== null && !all.some(({ owner }) => owner === query.owner)) return false
  if (!query.tags.every((tag) => all.some(({ tags = [] }) => tags.includes(tag)))) return false
  if (query.text === '') return true
  const wanted = query.text.toLowerCase()
  const texts = all.flatMap(({ owner, description, framework, tags = [] }) => [owner, description, framework, ...tags])
  return [name, ...texts].some((text) => text?.toLowerCase().includes(wanted))
}

const unknown = (text: string): ServerError =>
  ServerError.withoutStack('NOT_FOUND', `Request for unknown model: ${text}`)
