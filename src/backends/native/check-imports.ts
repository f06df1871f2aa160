// Which functions of Triton's server a backend needs that the host does not offer, read before the backend is loaded.

import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'
import { elfSymbols } from '../elf-file.ts'

const isTritons = (name: string): boolean => /^TRITON(SERVER|BACKEND|REPOAGENT|CACHE)_/.test(name)

/** Throws ServerError for a file that is no library. */
export async function missingFunctions(library: string, hostProgram: string): Promise<string[]> {
  const [needs, offers] = await Promise.all([
    elfSymbols(library),
    elfSymbols(path.join(path.dirname(hostProgram), 'libtritonserver.so')),
  ])
  if (needs === null) throw new ServerError('INVALID_ARG', `'${library}' is no shared library of 64-bit Linux`)
  const offered = new Set(offers?.exported)
  return needs.imported.filter((name) => isTritons(name) && !offered.has(name)).toSorted()
}
