// Which test files there are, and what each of them needs.

import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

export type TestFiles = {
  /** No preparation needed: unit, scenario, conformance. */
  readonly unit: readonly string[]
  /** Real processes, and everything that talks to Python. */
  readonly endToEnd: readonly string[]
  /** Those among endToEnd that need the prepared Python. */
  readonly python: ReadonlySet<string>
}

export function findTestFiles(root: string): TestFiles {
  const all = globSync(['src/**/*.test.ts', 'test/**/*.test.ts'], { cwd: root })
    .filter((file) => !file.startsWith('test/fixtures/'))
    .sort()
    .map((file) => path.join(root, file))
  const python = new Set(all.filter((file) => reachesPython(file, new Set())))
  const isEndToEnd = (file: string): boolean => file.startsWith(path.join(root, 'test', 'e2e')) || python.has(file)
  return { unit: all.filter((file) => !isEndToEnd(file)), endToEnd: all.filter(isEndToEnd), python }
}

/** A test needs Python when it, or a file of the tests that it imports, reads the variable that names it. */
function reachesPython(file: string, seen: Set<string>): boolean {
  if (seen.has(file)) return false
  seen.add(file)
  const text = readFileSync(file, 'utf8')
  if (text.includes("process.env['GALATEA_TEST_PYTHON']")) return true
  return [...text.matchAll(/from '(\.[^']*\.ts)'/g)]
    .map((match) => path.join(path.dirname(file), match[1] ?? ''))
    .filter((imported) => imported.includes(`${path.sep}test${path.sep}`))
    .some((imported) => reachesPython(imported, seen))
}
