import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { LocalStore } from '../local-store.ts'
import type { RepositoryStore } from '../repository-store.ts'
import type { Environment } from './cloud-credentials.ts'
import { isCloudPath } from './cloud-location.ts'
import { CloudStore, type CloudParts } from './cloud-store.ts'

export type CloudOptions = {
  /** As they were named, secrets and all; the store itself knows them by `withoutSecrets`. */
  readonly modelRepositories: readonly string[]
  /** `--model-cache-dir`; '' chooses a folder. */
  readonly modelCacheDirectory: string
  /** `--model-cache-limit` */
  readonly modelCacheLimitBytes: number
}

export type CloudDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly environment: Environment
  /** For repositories on this machine. */
  readonly local?: RepositoryStore
}

/** A store for repositories here and elsewhere. Nothing is opened, and no library is read, before it is needed. */
export function openCloudStore(dependencies: CloudDependencies, options: CloudOptions): CloudStore {
  const openParts = async (): Promise<CloudParts> => {
    const { openCloudParts } = await import('./cloud-parts.ts')
    return openCloudParts(dependencies, options)
  }
  return new CloudStore(
    { log: dependencies.log, local: dependencies.local ?? new LocalStore(), openParts },
    isCloudPath,
  )
}
