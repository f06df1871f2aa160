// Where the library of a native backend is: Triton's names and Triton's order.

import { existsSync } from 'node:fs'
import path from 'node:path'
import type { ModelConfig } from '../../config/model-config.ts'
import type { ModelFiles } from '../../model/backend.ts'

type SearchedModel = { readonly config: Pick<ModelConfig, 'runtime'>; readonly files: ModelFiles }

/** The name comes from config.pbtxt. It must be a plain name, so that it leads to no other place. */
const isPlain = (name: string): boolean => /^[\w-][\w.-]*$/.test(name)

/** The file name that a backend's library has. A `runtime` that names a library takes its place. */
export function libraryName(backend: string, runtime: string): string | null {
  const name = runtime.endsWith('.so') ? runtime : `libtriton_${backend}.so`
  return isPlain(name) && (runtime === '' || runtime.endsWith('.so')) ? name : null
}

/** The version's folder, the model's folder, `<backend directory>/<backend>`. */
export function searchedFolders(backend: string, directory: string, files: ModelFiles | null): string[] {
  const own = files === null ? [] : [files.versionDirectory, files.modelDirectory]
  return directory === '' || !isPlain(backend) ? own : [...own, path.resolve(directory, backend)]
}

/** Null when there is none. `model` null: only the backend directory is searched. */
export function findLibrary(backend: string, directory: string, model: SearchedModel | null): string | null {
  const name = libraryName(backend, model?.config.runtime ?? '')
  if (name === null) return null
  const folder = searchedFolders(backend, directory, model?.files ?? null).find((each) =>
    existsSync(path.join(each, name)),
  )
  return folder === undefined ? null : path.resolve(folder, name)
}
