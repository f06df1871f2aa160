// Records who changed which model, how the change ended, and what each version was loaded from.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf } from '../../base/server-error.ts'
import { changeOrigin, type ChangeOrigin } from '../../model/change-origin.ts'
import type { ContentIndex } from '../../repository/content-index.ts'
import type { FoundModel, PolledModel } from '../../repository/model-repository.ts'
import type { RegistryReader } from '../../repository/registry-reader.ts'
import { polledContents } from '../../repository/version-content.ts'
import { isAskedByClient, type AuditAction, type AuditOutcome } from '../../telemetry/audit-entry.ts'
import type { AuditLog } from '../../telemetry/audit-log.ts'
import type { LoadOptions } from '../serving/load-options.ts'
import type { ServedModel } from '../serving/served-model.ts'
import type { ServedVersion } from '../serving/served-version.ts'
import type { LoadOverride } from './load-override.ts'

type RecorderDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly audit: AuditLog
  readonly contents: ContentIndex
  /** Null: there are no registry files. */
  readonly registryReader: RegistryReader | null
}

type Change = {
  readonly model: string
  readonly action: AuditAction
  readonly origin: ChangeOrigin | undefined
  readonly override?: '' | 'config' | 'files'
  readonly versions?: readonly ServedVersion[]
}

export class ChangeRecorder {
  readonly #dependencies: RecorderDependencies

  constructor(dependencies: RecorderDependencies) {
    this.#dependencies = dependencies
  }

  /** Runs a load and records it. `work` gives false: there was nothing to do, or null: the model sleeps. */
  async load(
    model: ServedModel,
    polled: PolledModel,
    options: LoadOptions,
    work: () => Promise<boolean | null>,
  ): Promise<boolean> {
    const { clock } = this.#dependencies
    const { origin, upload } = options
    const override = overrideOf(options)
    const begin = { timeMs: clock.wallMs(), startNs: clock.nowNs() }
    const change: Change = { model: model.label, action: model.latest === null ? 'load' : 'reload', origin, override }
    let isChanged: boolean | null
    try {
      isChanged = await work()
    } catch (reason) {
      // The client is told less than the record: Triton's answer leaves out what is wrong with the repository's entry.
      const text = model.failure === '' ? messageOf(reason) : model.failure
      this.#record({ ...change, versions: model.ready }, begin, 'failed', text.trimEnd())
      throw reason
    }
    if (polled.error === null) this.#learn(model, polled)
    if (isChanged === true) this.#record({ ...change, versions: model.ready }, begin, 'ok')
    else if (isChanged === false && isWorthNoting(origin)) {
      this.#record({ ...change, action: 'load', versions: model.ready }, begin, 'unchanged')
    }
    if (isChanged === true) this.#reportRegistry(model, upload?.root ?? null)
    return isChanged !== false
  }

  /** The load failed before there was anything to load. */
  failed(name: string, options: LoadOptions, reason: unknown): void {
    const change: Change = { model: name, action: 'load', origin: options.origin, override: overrideOf(options) }
    this.#now(change, 'failed', messageOf(reason).trimEnd())
  }

  /** To be called before the unload: it records the versions that serve. */
  unloads(model: ServedModel, origin: ChangeOrigin | undefined): void {
    const isThere = model.latest !== null || model.sleeping !== null
    if (!isThere && !isWorthNoting(origin)) return
    const change: Change = { model: model.label, action: 'unload', origin, versions: model.ready }
    this.#now(change, isThere ? 'ok' : 'unchanged')
  }

  sleeps(model: ServedModel, reason: string): void {
    const { label, ready: versions } = model
    this.#now({ model: label, action: 'sleep', origin: changeOrigin('residency'), versions }, 'ok', reason)
  }

  /** Says in the log that the model does not serve from its repository. */
  overridden(name: string, { files }: LoadOverride, origin: ChangeOrigin | undefined): void {
    const what =
      files.size === 0 ? 'a configuration' : `a configuration and ${files.size} file${files.size === 1 ? '' : 's'}`
    const { by, address } = origin ?? embedding
    const text = `loading '${name}' from ${what} that came with the request, in place of the repository's`
    this.#dependencies.log.info(text, { by, ...(address === '' ? {} : { address }) })
  }

  #now(change: Change, outcome: AuditOutcome, reason = ''): void {
    const { clock } = this.#dependencies
    this.#record(change, { timeMs: clock.wallMs(), startNs: clock.nowNs() }, outcome, reason)
  }

  #record(
    { model, action, origin = embedding, override = '', versions = [] }: Change,
    { timeMs, startNs }: { readonly timeMs: number; readonly startNs: number },
    outcome: AuditOutcome,
    reason = '',
  ): void {
    const { audit, clock } = this.#dependencies
    const contents = new Map(versions.map((version) => [version.version, version.contentKnown]))
    audit.record({
      timeMs,
      action,
      model,
      versions: [...contents.keys()],
      outcome,
      reason,
      durationMs: (clock.nowNs() - startNs) / 1e6,
      override,
      origin,
      contentHash: async (version) => (await contents.get(version))?.hash ?? null,
    })
  }

  /** In the background, because hashing the files may take long. */
  #learn(model: ServedModel, polled: FoundModel): void {
    const unknown = [...model.ready].filter((version) => !version.hasContent)
    const numbers = unknown.map(({ version }) => version)
    const contents = polledContents(this.#dependencies.contents, polled, numbers)
    for (const version of unknown) version.learnContent(contents.get(version.version) ?? Promise.resolve(null))
  }

  #reportRegistry({ key, label }: ServedModel, root: string | null): void {
    const { registryReader, log } = this.#dependencies
    registryReader?.report(key, root).catch((reason: unknown) => {
      log.warning(`the registry file of model '${label}' cannot be read: ${messageOf(reason)}`)
    })
  }
}

const embedding = changeOrigin('embedding')

const overrideOf = ({ config = null, upload = null }: LoadOptions): '' | 'config' | 'files' =>
  upload === null ? (config === null ? '' : 'config') : 'files'

/** Whether a change that had nothing to do is recorded: only when a client asked for it by name. */
const isWorthNoting = (origin: ChangeOrigin = embedding): boolean => isAskedByClient(origin.by) && origin.because === ''
