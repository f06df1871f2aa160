// Names that come from outside — keys of an object store, entries of an archive — and become files on this machine.

import { ServerError } from '../../base/server-error.ts'

/** What Linux and macOS allow in one name, and more folders than a model has. */
const maxNameBytes = 255
const maxPathBytes = 1024
const maxDepth = 32

/** What is wrong with a name that is to be one file or folder; null when nothing is. */
function namePartProblem(name: string): string | null {
  if (name === '') return 'an empty name'
  if (name === '.' || name === '..') return `the name '${name}'`
  // A backslash separates folders on other systems; control characters garble logs and terminals.
  if (name.includes('\\') || /\p{Cc}/u.test(name)) return 'a backslash or a control character'
  // Bytes that were no UTF-8 were replaced when they were read: the name is not the one that was stored.
  if (name.includes('\ufffd') || !name.isWellFormed()) return 'bytes that are not UTF-8'
  return Buffer.byteLength(name) > maxNameBytes ? `a name of more than ${maxNameBytes} bytes` : null
}

/** What is wrong with a path below a model's folder, written with `/`; null when nothing is. */
export function relativePathProblem(path: string): string | null {
  if (path.startsWith('/')) return 'a leading slash'
  if (/^[a-z]:/i.test(path)) return 'the letter of a drive'
  if (Buffer.byteLength(path) > maxPathBytes) return `more than ${maxPathBytes} bytes`
  const parts = path.split('/')
  if (parts.length > maxDepth) return `more than ${maxDepth} folders`
  for (const part of parts) {
    const problem = namePartProblem(part)
    if (problem !== null) return problem
  }
  return null
}

/** The path unchanged. Throws INVALID_ARG when it could lead anywhere but below the folder it is joined to. */
export function requireRelativePath(path: string, where: string): string {
  const problem = relativePathProblem(path)
  if (problem === null) return path
  throw new ServerError('INVALID_ARG', `${where} has the name ${shownName(path)}, which is refused: it has ${problem}`)
}

/** Why the paths of files cannot lie below one folder; null when they can. Each of their folders is looked at once. */
export function folderProblem(paths: ReadonlySet<string>, mostFolders: number): string | null {
  const folders = new Set<string>()
  for (const path of paths) {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      const folder = path.slice(0, end)
      // The folders around it were looked at with it.
      if (folders.has(folder)) break
      if (paths.has(folder)) return `${shownName(folder)} is in it both as a file and as a folder`
      if (folders.add(folder).size > mostFolders) return `its files lie in more than ${mostFolders} folders`
    }
  }
  return null
}

/** Quoted, cut and without control characters. */
export const shownName = (name: string): string => JSON.stringify(name.slice(0, 120))
