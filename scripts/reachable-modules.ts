import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** The compiled modules that the entries need, and their types: paths relative to `dist`. Modules and types name different files. */
export function reachableModules(dist: string, entries: readonly string[]): string[] {
  const seen = new Set<string>()
  const visit = (file: string): void => {
    if (seen.has(file) || !existsSync(path.join(dist, file))) return
    seen.add(file)
    const text = readFileSync(path.join(dist, file), 'utf8')
    for (const [, target = ''] of text.matchAll(/(?:from|import) ?\(?['"](\.[^'"]+)['"]/g)) {
      const module = path.posix.join(path.posix.dirname(file), target)
      // In declarations `./x.js` stands for `./x.d.ts`, and the compiler leaves `./x.ts` in them as it is.
      visit(file.endsWith('.d.ts') ? module.replace(/(\.d)?\.[jt]s$/, '.d.ts') : module)
    }
  }
  for (const entry of entries) {
    visit(`${entry}.js`)
    visit(`${entry}.d.ts`)
  }
  return [...seen].sort()
}
