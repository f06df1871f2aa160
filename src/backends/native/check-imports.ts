// Whether the host offers every function of Triton's server that a backend needs, before the backend is loaded.

import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'
import { elfSymbols } from '../elf-file.ts'

const isTritons = (name: string): boolean => /^TRITON(SERVER|BACKEND|REPOAGENT|CACHE)_/.test(name)
/** The functions by which a backend sends requests to other models. */
const isOfCalls = /^TRITONSERVER_(InferenceRe|Server|ResponseAllocator)/

/** Throws ServerError that names what is missing. */
export async function checkImports(library: string, hostProgram: string): Promise<void> {
  const [needs, offers] = await Promise.all([
    elfSymbols(library),
    elfSymbols(path.join(path.dirname(hostProgram), 'libtritonserver.so')),
  ])
  if (needs === null) throw new ServerError('INVALID_ARG', `'${library}' is no shared library of 64-bit Linux`)
  const offered = new Set(offers?.exported)
  const missing = needs.imported.filter((name) => isTritons(name) && !offered.has(name)).toSorted()
  if (missing.length === 0) return
  const why = missing.some((name) => isOfCalls.test(name))
    ? ' Backends that send requests to models are not supported.'
    : ''
  throw new ServerError(
    'UNSUPPORTED',
    `'${library}' needs ${missing.length} functions of Triton's server that native backends do not get here: ` +
      `${missing.join(', ')}.${why}`,
  )
}
