import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { messageOf, ServerError } from './server-error.ts'

/**
 * A library that few need, read on first use: the others do not install it. The caller says what it
 * uses of it; its own types are not asked for, because it need not be installed.
 */
export async function importPackage<Package>(name: string, purpose: string): Promise<Package> {
  try {
    return (await import(name)) as Package
  } catch (reason) {
    if (!isMissing(reason, name)) throw ServerError.from(reason, `${name} cannot be read: `)
  }
  const fromNodePath = resolveByNodePath(name)
  if (fromNodePath !== null) return (await import(fromNodePath)) as Package
  throw new ServerError(
    'UNSUPPORTED',
    `${purpose} needs the package ${name}, which is not installed: npm install ${name}`,
  )
}

const isMissing = (reason: unknown, name: string): boolean =>
  (reason as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND' && messageOf(reason).includes(`'${name}'`)

/** `import` does not look into NODE_PATH; `require` does, and images are built that way. */
function resolveByNodePath(name: string): string | null {
  try {
    return pathToFileURL(createRequire(import.meta.url).resolve(name)).href
  } catch {
    return null
  }
}
