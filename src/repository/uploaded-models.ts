// Models whose files come with a load request instead of from a repository. The files lie in a folder of their own as long as
// the model serves.

import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { newOwnFolder } from '../base/own-folder.ts'
import { ServerError } from '../base/server-error.ts'
import { modelNameProblem } from './model-name.ts'

/** Relative path inside the model's folder → content. */
export type UploadedFiles = ReadonlyMap<string, Uint8Array>

export type UploadedModel = {
  /** A repository that holds this one model. */
  readonly root: string
  /** Removes the folder. A second call does nothing. */
  remove(): Promise<void>
}

export async function writeUploadedModel(name: string, files: UploadedFiles): Promise<UploadedModel> {
  // Everything is checked before anything is written.
  const nameProblem = modelNameProblem(name)
  if (nameProblem !== null) throw new ServerError('INVALID_ARG', nameProblem)
  const paths = [...files.keys()].map((file) => [file, relativePath(file)] as const)
  const root = await newOwnFolder('upload')
  const remove = (): Promise<void> => rm(root, { recursive: true, force: true })
  try {
    await mkdir(path.join(root, name))
    for (const [file, relative] of paths) {
      const target = path.join(root, name, relative)
      await mkdir(path.dirname(target), { recursive: true })
      await writeFile(target, files.get(file) as Uint8Array)
    }
    return { root, remove }
  } catch (reason) {
    await remove()
    throw reason
  }
}

/**
 * A path below the model's folder: no `..`, no NUL, no backslash that another system would read as a slash. As in Triton a slash
 * at the beginning means the model's folder, and empty parts and `.` mean nothing.
 */
function relativePath(file: string): string {
  const parts = file.split('/').filter((part) => part !== '' && part !== '.')
  const isPlain = parts.length > 0 && parts.every((part) => part !== '..' && !/[\\\0]/.test(part))
  if (!isPlain || file.length > 4096) {
    throw new ServerError(
      'INVALID_ARG',
      `file path '${file.slice(0, 200)}' is not a path inside the model's folder: write it like '1/model.onnx'`,
    )
  }
  return path.join(...parts)
}
