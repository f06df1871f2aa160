// Finds llama.cpp's library: the folder that the operator names, or the npm package for this system.

import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'

const scope = '@node-llama-cpp'
const packageVersion = '3.22.1'

const cudaFile = /^(lib)?ggml-cuda\.(so|dll)$/

const systems: Readonly<Record<string, string>> = {
  'linux-x64': 'linux-x64', 'linux-arm64': 'linux-arm64', 'darwin-arm64': 'mac-arm64-metal', 'darwin-x64': 'mac-x64',
  'win32-x64': 'win-x64', 'win32-arm64': 'win-arm64',
} // prettier-ignore

/** The folder with libllama. `libraryPath` is that of `--backend-config=llamacpp,library-path=…`; '' for none. */
export function findLlamaLibrary(libraryPath: string, usesGpus: boolean): string {
  if (libraryPath !== '') return namedFolder(libraryPath)
  const system = systems[`${process.platform}-${process.arch}`]
  if (system === undefined) throw missing(`there is no package of ${scope} for ${process.platform}-${process.arch}`, '')
  // The package for GPUs computes on processors as well.
  const wanted = usesGpus ? [`${system}-cuda`] : [system, `${system}-cuda`]
  for (const name of wanted) {
    const folder = packageFolder(name)
    if (folder !== null) return folder
  }
  const name = `${scope}/${wanted[0] ?? system}`
  throw missing(`the package ${name} is not installed`, `npm install ${name}@${packageVersion}`)
}

/** Whether there is a library that computes on GPUs of NVIDIA. */
export function hasCudaLibrary(libraryPath: string): boolean {
  try {
    return readdirSync(findLlamaLibrary(libraryPath, true)).some((name) => cudaFile.test(name))
  } catch {
    return false
  }
}

/**
 * The files that compute on GPUs of NVIDIA, the one to try first first. The package `…-cuda-ext` has one for an older CUDA.
 * `folder` is that of libllama.
 */
export function cudaFiles(folder: string): string[] {
  const own = readdirSync(folder).filter((name) => cudaFile.test(name))
  const name = path.basename(folder)
  const older = path.join(folder, '..', '..', '..', `${name}-ext`, 'bins', name, 'fallback')
  const further = existsSync(older) ? readdirSync(older).filter((each) => cudaFile.test(each)) : []
  return [...own.map((each) => path.join(folder, each)), ...further.map((each) => path.join(older, each))]
}

function missing(what: string, install: string): ServerError {
  const advice = install === '' ? '' : `install it with '${install}', or `
  const named = 'name a folder that has libllama with --backend-config=llamacpp,library-path=PATH'
  return new ServerError('UNAVAILABLE', `llama.cpp's library is not here: ${what}; ${advice}${named}`)
}

function namedFolder(libraryPath: string): string {
  const folder = existsSync(libraryPath) && hasLibrary(libraryPath) ? libraryPath : path.dirname(libraryPath)
  if (existsSync(folder) && hasLibrary(folder)) return path.resolve(folder)
  const text = `--backend-config=llamacpp,library-path=${libraryPath}: expected libllama or a folder that has it, found neither`
  throw new ServerError('INVALID_ARG', text)
}

function hasLibrary(folder: string): boolean {
  try {
    return readdirSync(folder).some((name) => /^(lib)?llama(\.[a-z]+)?(\.v[\d.]+)?\.(so|dylib|dll)$/.test(name))
  } catch {
    // It is a file.
    return false
  }
}

/** Looks where the server is installed, then where it was started. */
function packageFolder(name: string): string | null {
  for (const from of [import.meta.url, path.join(process.cwd(), 'package.json')]) {
    for (const root of createRequire(from).resolve.paths(scope) ?? []) {
      const folder = path.join(root, scope, name, 'bins', name)
      if (existsSync(folder)) return folder
    }
  }
  return null
}
