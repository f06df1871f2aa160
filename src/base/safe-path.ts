// Paths that may not leave their root, whatever names, `..` or symbolic links they contain.

import { realpath } from 'node:fs/promises'
import { isAbsolute, join, sep } from 'node:path'
import { ServerError } from './server-error.ts'

/** Joins without looking at the disk; refuses absolute paths, `..` and NUL. For files that do not exist yet. */
export function joinInside(root: string, relativePath: string): string {
  const parts = relativePath.split(/[\\/]/)
  if (isAbsolute(relativePath) || parts.includes('..') || relativePath.includes('\0')) {
    throw new ServerError('INVALID_ARG', `path '${relativePath}' leads out of '${root}'`)
  }
  return join(root, relativePath)
}

/**
 * The real path of what lies at `relativePath`, symbolic links resolved; null when there is nothing. Throws INVALID_ARG
 * when it lies outside the root. The root itself may be a link: what counts is where it leads.
 */
export async function realPathInside(root: string, relativePath: string): Promise<string | null> {
  const path = joinInside(root, relativePath)
  const realRoot = await realPathOrNull(root)
  const realTarget = realRoot === null ? null : await realPathOrNull(path)
  if (realRoot === null || realTarget === null) return null
  if (!isInside(realRoot, realTarget)) {
    throw new ServerError('INVALID_ARG', `'${path}' leads out of '${root}': it is a link to '${realTarget}'`)
  }
  return realTarget
}

const isInside = (root: string, path: string): boolean =>
  path === root || path.startsWith(root.endsWith(sep) ? root : root + sep)

async function realPathOrNull(path: string): Promise<string | null> {
  try {
    return await realpath(path)
  } catch (reason) {
    const code = (reason as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENAMETOOLONG' || code === 'ELOOP') return null
    throw ServerError.from(reason, `cannot resolve '${path}': `)
  }
}
