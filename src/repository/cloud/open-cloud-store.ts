import { LocalStore } from '../local-store.ts'
import { isCloudPath } from './cloud-location.ts'
import type { CloudDependencies, CloudOptions } from './cloud-parts.ts'
import { CloudStore, type CloudParts } from './cloud-store.ts'

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
