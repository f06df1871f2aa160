// Triton's own libtritonserver.so, for backends that need more of a server than the host is.

import { existsSync, globSync, realpathSync } from 'node:fs'
import fs from 'node:fs/promises'
import path from 'node:path'
import { createHash } from 'node:crypto'
import { userCacheFolder } from '../../base/user-cache-folder.ts'

const libraryName = 'libtritonserver.so'

/** `given` is the value of tritonserver-library, or ''. `backends` is --backend-directory. Null: there is none. */
export function findTritonServer(given: string, backends: string, environment: NodeJS.ProcessEnv): string | null {
  const folders = [
    path.join(backends, '../lib'),
    ...(environment['LD_LIBRARY_PATH'] ?? '').split(':').filter(Boolean),
    '/opt/tritonserver/lib',
  ]
  const candidates = given === '' ? folders.map((folder) => path.join(folder, libraryName)) : [given]
  const found = candidates.find((file) => existsSync(file)) ?? (given === '' ? inWheel(backends) : undefined)
  return found === undefined ? null : realpathSync(found)
}

/** The wheel `nvidia-pytriton` has the library beside its package, under a name of its own. */
const inWheel = (backends: string): string | undefined =>
  globSync(path.join(realOr(backends), '../../../nvidia_pytriton.libs/libtritonserver-*.so'))[0]

const realOr = (folder: string): string => (existsSync(folder) ? realpathSync(folder) : folder)

/** The folders in which the linker finds the library by the name that backends ask for, and the libraries that it needs itself. */
export async function tritonServerFolders(library: string): Promise<string[]> {
  const own = path.dirname(library)
  if (path.basename(library) === libraryName) return [own]
  const digest = createHash('sha256').update(library).digest('hex').slice(0, 16)
  const folder = path.join(userCacheFolder(), `tritonserver-${digest}`)
  const link = path.join(folder, libraryName)
  await fs.mkdir(folder, { recursive: true })
  await fs.symlink(library, link).catch((reason: unknown) => {
    if (!existsSync(link)) throw reason
  })
  return [folder, own]
}
