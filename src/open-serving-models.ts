// The models that TensorFlow Serving's flags name: read from its configuration files, and mapped before the Engine starts.

import type { Cancel, Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { messageOf } from './base/server-error.ts'
import type { Engine } from './engine/engine.ts'
import { ServingModels } from './frontends/tfserving/serving-models.ts'
import { changeOrigin } from './model/change-origin.ts'
import type { TfservingOptions } from './options/server-options.ts'
import { batchingText, parametersText, servingEntries, type ServingEntry } from './protocol/tfserving/serving-config.ts'
import type { MappedFolders } from './repository/mapped-folders.ts'
import { parsed, readIfNamed, readServingTls } from './serving-tls.ts'
import { tfservingFrontEnd, type TfservingFrontEnd } from './tfserving-front-end.ts'

type ServingParts = {
  readonly engine: Engine
  readonly clock: Clock
  readonly log: Log
  readonly mapped: MappedFolders
}

export type OpenServingModels = {
  readonly frontEnd: TfservingFrontEnd
  /** Looks at the configuration file again and again, where an operator asked for that. */
  follow(): void
  close(): void
}

/** Throws ServerError for a file that cannot be read. */
export async function openServingModels(parts: ServingParts, options: TfservingOptions): Promise<OpenServingModels> {
  const { engine, mapped } = parts
  const log = parts.log.from('open-serving-models.ts')
  const batching = await readBatching(options)
  let text = await readIfNamed(options.modelConfigFile)
  const entries = entriesOf(options, text, batching)
  for (const entry of entries) mapped.map(entry.name, entry)
  const models = new ServingModels({
    engine,
    log,
    folders: mapped,
    entries,
    allowsReload: options.allowsReload,
    sharedConfigText: batching,
  })
  let cancel: Cancel = () => undefined
  const look = async (): Promise<void> => {
    try {
      const now = await readIfNamed(options.modelConfigFile)
      if (now === text) return
      text = now
      log.info(`reading '${options.modelConfigFile}' again: it has changed`)
      await models.reload(entriesOf(options, now, batching), changeOrigin('poll'))
    } catch (reason) {
      log.error(`cannot follow '${options.modelConfigFile}'`, { reason: messageOf(reason) })
    }
  }
  const follow = (): void => {
    if (options.modelConfigPollSecs === 0 || options.modelConfigFile === '') return
    cancel = parts.clock.after(options.modelConfigPollSecs * 1e9, () => void look().then(follow))
  }
  const grpcOptions = options.sslConfigFile === '' ? {} : { tls: await readServingTls(options.sslConfigFile) }
  return { frontEnd: tfservingFrontEnd(models, options.timeoutMs, grpcOptions), follow, close: () => cancel() }
}

/** The models of the flags, then those of the configuration file. */
function entriesOf({ models, modelConfigFile }: TfservingOptions, text: string, batching: string): ServingEntry[] {
  const shared = { configText: batching, versionPolicyText: '', labels: new Map<string, string>() }
  const named = [...models].map(([name, folder]) => ({ name, folder, hasPaddedVersions: true as const, ...shared }))
  if (modelConfigFile === '') return named
  return [...named, ...servingEntries(parsed('ModelServerConfig', modelConfigFile, text), batching)]
}

/** The configuration that all models share which have none of their own. */
async function readBatching({ isBatching, batchingFile, modelParameters }: TfservingOptions): Promise<string> {
  const given = parametersText(modelParameters)
  if (!isBatching) return given
  const text = await readIfNamed(batchingFile)
  return given + batchingText(batchingFile === '' ? null : parsed('BatchingParameters', batchingFile, text))
}
