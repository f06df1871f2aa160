// Which test files there are, and what each of them needs.

import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { isToolName, type ToolName } from './test-tools.ts'

export type TestFiles = {
  /** No preparation needed: unit, scenario, conformance. */
  readonly unit: readonly string[]
  /** Real processes, and everything that talks to Python. */
  readonly endToEnd: readonly string[]
  /** Those among endToEnd that need the prepared Python. */
  readonly python: ReadonlySet<string>
  /** Programs of other projects, by the test file that asks for them. */
  readonly tools: ReadonlyMap<string, readonly ToolName[]>
}

export function findTestFiles(root: string): TestFiles {
  const all = globSync(['src/**/*.test.ts', 'test/**/*.test.ts'], { cwd: root })
    .filter((file) => !file.startsWith('test/fixtures/'))
    .sort()
    .map((file) => path.join(root, file))
  const texts = new Map(all.map((file) => [file, reachableTexts(file, new Set())]))
  const python = new Set(all.filter((file) => texts.get(file)?.some(namesPython)))
  const tools = new Map(all.map((file) => [file, (texts.get(file) ?? []).flatMap(requiredTools)]))
  const isEndToEnd = (file: string): boolean => file.startsWith(path.join(root, 'test', 'e2e')) || python.has(file)
  return { unit: all.filter((file) => !isEndToEnd(file)), endToEnd: all.filter(isEndToEnd), python, tools }
}

/** Files that take half a minute and more: begun last, one of them would keep one core busy and leave the others idle. */
const longest = [
  'test/conformance/turn-fuzz.test.ts',
  'test/conformance/golden/',
  'test/e2e/frameworks/frameworks-quiet.test.ts',
  'test/e2e/frameworks/framework-documents.test.ts',
  'test/e2e/packaging.test.ts',
  'test/e2e/document-commands.test.ts',
  'test/e2e/bench.test.ts',
  'test/e2e/resnet50.test.ts',
  'test/e2e/console/console.test.ts',
  'test/e2e/job-queues.test.ts',
  'test/e2e/templates.test.ts',
  'test/e2e/llamacpp.test.ts',
  'test/e2e/tune.test.ts',
  'test/e2e/frameworks/scikit-learn.test.ts',
]

export function longestFirst(root: string, files: readonly string[]): string[] {
  const rankOf = (file: string): number => {
    const rank = longest.findIndex((start) => path.relative(root, file).startsWith(start))
    return rank === -1 ? longest.length : rank
  }
  return files.toSorted((one, other) => rankOf(one) - rankOf(other))
}

/** A test needs what it, or a file of the tests that it imports, asks for. */
function reachableTexts(file: string, seen: Set<string>): string[] {
  if (seen.has(file)) return []
  seen.add(file)
  const text = readFileSync(file, 'utf8')
  const imported = [...text.matchAll(/from '(\.[^']*\.ts)'/g)]
    .map((match) => path.join(path.dirname(file), match[1] ?? ''))
    // A test of the house's rules holds source texts whose imports lead nowhere.
    .filter((other) => other.includes(`${path.sep}test${path.sep}`) && existsSync(other))
  return [text, ...imported.flatMap((other) => reachableTexts(other, seen))]
}

const namesPython = (text: string): boolean => text.includes("process.env['GALATEA_TEST_PYTHON']")

const requiredTools = (text: string): ToolName[] =>
  [...text.matchAll(/requireTool\('([^']*)'\)/g)].map((match) => match[1] ?? '').filter(isToolName)
