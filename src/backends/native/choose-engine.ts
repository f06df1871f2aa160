// Who runs a backend: the host's own library, or Triton's server in the host, for backends that need functions which that library does not
// have.

import path from 'node:path'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { missingFunctions } from './check-imports.ts'
import { findTritonServer, tritonServerFolders } from './find-triton-server.ts'
import { findHostProgram, tritonProgramName } from './host-program.ts'
import type { NativeSettings } from './native-settings.ts'

export type HostEngine = {
  readonly program: string
  /** For the linker. */
  readonly folders: readonly string[]
  /** The library of Triton's server; null: the host's own engine. */
  readonly tritonServer: string | null
}

type ChosenFor = { readonly name: string; readonly library: string; readonly backendDirectory: string }

/** Throws ServerError that names the functions, where the backend needs Triton's server and there is none. */
export async function chooseEngine(
  log: Log,
  settings: Pick<NativeSettings, 'engine' | 'tritonServerLibrary'>,
  { name, library, backendDirectory }: ChosenFor,
  environment: NodeJS.ProcessEnv,
): Promise<HostEngine> {
  const program = await findHostProgram(log)
  const missing = await missingFunctions(library, program)
  if (missing.length === 0 && settings.engine === 'host') return { program, folders: [], tritonServer: null }
  const tritonServer = findTritonServer(settings.tritonServerLibrary, backendDirectory, environment)
  if (tritonServer === null) throw notFound(name, library, settings.tritonServerLibrary, missing)
  return {
    program: path.join(path.dirname(program), tritonProgramName),
    folders: await tritonServerFolders(tritonServer),
    tritonServer,
  }
}

function notFound(name: string, library: string, given: string, missing: readonly string[]): ServerError {
  const flag = `--backend-config=${name},tritonserver-library`
  if (given !== '') return new ServerError('NOT_FOUND', `${flag}: there is no file '${given}'`)
  const why =
    missing.length === 0
      ? `--backend-config=${name},engine=tritonserver needs the library of Triton's server`
      : `'${library}' needs ${missing.length} functions of Triton's server that only its own library has: ${missing.join(', ')}`
  return new ServerError(
    'UNSUPPORTED',
    `${why}. No libtritonserver.so was found beside the backends, in LD_LIBRARY_PATH or in /opt/tritonserver/lib; ${flag}=<file> names one`,
  )
}
