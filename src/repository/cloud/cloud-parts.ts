import path from 'node:path'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { userCacheFolder } from '../../base/user-cache-folder.ts'
import type { RepositoryStore } from '../repository-store.ts'
import { ArchiveTree } from './archive-tree.ts'
import { openAzure } from './azure-object-store.ts'
import { BlobCache } from './blob-cache.ts'
import { findCredential, type Environment } from './cloud-credentials.ts'
import { parseCloudLocation, withoutSecrets, type BucketLocation } from './cloud-location.ts'
import type { CloudParts } from './cloud-store.ts'
import type { DownloadSettings } from './download-file.ts'
import { openGcs } from './gcs-object-store.ts'
import type { ObjectStore, WritableStore } from './object-store.ts'
import { ObjectTree, type TreeDependencies } from './object-tree.ts'
import type { RemoteTree } from './remote-tree.ts'
import { openS3 } from './s3-object-store.ts'
import { defaultRetry } from './transient-retry.ts'
import { Turnstile } from '../../base/turnstile.ts'

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

const parallelDownloads = 8
const downloads: DownloadSettings = { retry: defaultRetry, stallMs: 30_000 }

export async function openCloudParts(dependencies: CloudDependencies, options: CloudOptions): Promise<CloudParts> {
  const { clock, log, environment } = dependencies
  const directory = options.modelCacheDirectory || defaultCacheDirectory(environment)
  const addresses = new Map(options.modelRepositories.map((address) => [withoutSecrets(address), address]))
  const cache = await BlobCache.open(log, directory, options.modelCacheLimitBytes)
  return {
    clock,
    log,
    cache,
    turnstile: new Turnstile(parallelDownloads),
    openTree: (root) => openRemoteTree({ clock, log, cache }, addresses.get(root) ?? root, environment),
  }
}

async function openRemoteTree(
  dependencies: TreeDependencies,
  root: string,
  environment: Environment,
): Promise<RemoteTree> {
  const location = parseCloudLocation(root)
  if (location === null) throw new ServerError('INVALID_ARG', `'${root}' is not an address of a cloud repository`)
  if (location.kind === 'archive') return new ArchiveTree(dependencies, downloads, location)
  const open = (): Promise<ObjectStore> => openObjectStore(location, environment)
  return new ObjectTree(dependencies, downloads, { first: await open(), open }, location)
}

export async function openObjectStore(location: BucketLocation, environment: Environment): Promise<WritableStore> {
  const credential = await findCredential(location, environment)
  if (location.kind === 's3') return openS3(location, credential)
  if (location.kind === 'gs') return openGcs(location, credential, environment)
  return openAzure(location, credential, environment)
}

/** Triton's variables name a folder for what it downloads; else the user's cache folder. */
function defaultCacheDirectory(environment: Environment): string {
  for (const store of ['AWS', 'GCS', 'AZURE']) {
    const mount = environment[`TRITON_${store}_MOUNT_DIRECTORY`] ?? ''
    if (mount !== '') return path.join(mount, 'galatea-models')
  }
  return path.join(userCacheFolder(environment), 'models')
}
