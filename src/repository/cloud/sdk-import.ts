import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { messageOf, ServerError } from '../../base/server-error.ts'

/**
 * A cloud provider's own library, read on first use: who serves from disk pays nothing for it. The caller says what it
 * uses of it; its own types are not asked for, because it need not be installed.
 */
export async function importSdk<Sdk>(name: string, purpose: string): Promise<Sdk> {
  try {
    return (await import(name)) as Sdk
  } catch (reason) {
    if (!isMissing(reason, name)) throw ServerError.from(reason, `${name} cannot be read: `)
  }
  const fromNodePath = resolveByNodePath(name)
  if (fromNodePath !== null) return (await import(fromNodePath)) as Sdk
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
