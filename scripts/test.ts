// The one test command: static checks beside unit, scenario and conformance tests, then end-to-end tests with whatever they
// need prepared. As many files run beside each other as there are cores, those that take longest first.
//
//   npm test                                   everything
//   npm test -- --only static                  format, lint, types
//   npm test -- --only unit                    what needs no preparation
//   npm test -- --only e2e                     real processes
//   npm test -- --only src/cli/parse-flags.test.ts   one file, or every test file whose path contains the word

import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { preparePython } from './python-environment.ts'
import { runTestFile, type FileResult } from './run-test-file.ts'
import { checkSupplyChain } from './supply-chain.ts'
import { takeDefaultPorts } from './taken-ports.ts'
import { findTestFiles, longestFirst, type TestFiles } from './test-files.ts'
import { prepareTool } from './test-tools.ts'

const root = path.join(import.meta.dirname, '..')

type Totals = {
  passed: number
  failed: number
  skipped: number
  notRun: string[]
  secondRun: string[]
  times: FileTime[]
}
type FileTime = { readonly file: string; readonly secs: number }

async function main(): Promise<number> {
  const startedMs = performance.now()
  const { values, positionals } = parseArgs({
    options: { only: { type: 'string', multiple: true } },
    allowPositionals: true,
  })
  const only = [...(values.only ?? []), ...positionals]
  const wants = (part: string): boolean => only.length === 0 || only.includes(part)
  const files = findTestFiles(root)
  const chosen = choose(files, only, wants)
  const totals: Totals = { passed: 0, failed: 0, skipped: 0, notRun: [], secondRun: [], times: [] }
  if (only.length > 0 && !wants('static') && chosen.unit.length + chosen.endToEnd.length === 0) {
    process.stderr.write(`no test file's path contains ${only.map((word) => `'${word}'`).join(' or ')}\n`)
    return 1
  }
  // Mostly waiting for downloads on the first run: it goes on beside the first two steps.
  const needsPython = chosen.endToEnd.some((file) => files.python.has(file))
  const python = needsPython ? preparePython(root) : null
  const tools = prepareTools([...chosen.unit, ...chosen.endToEnd], files)
  process.env['GALATEA_SEED'] = chooseSeed(process.env['GALATEA_SEED'])
  process.stdout.write(`seed of the property tests: ${process.env['GALATEA_SEED']} (GALATEA_SEED=random for another)\n`)
  await takeDefaultPorts()
  title(
    `unit, scenario and conformance tests: ${chosen.unit.length} files; end-to-end tests: ${chosen.endToEnd.length}`,
  )
  const lanes = new TestLanes(totals)
  if (wants('static')) lanes.add([() => runStaticChecks(totals)])
  lanes.addFiles(chosen.unit)
  lanes.start()
  // What end-to-end tests need is made beside the others.
  await tools
  lanes.addFiles(await withPython(chosen.endToEnd, files, python, totals))
  await lanes.end()
  report(totals, performance.now() - startedMs)
  return totals.failed > 0 || totals.notRun.length > 0 ? 1 : 0
}

/** Fixed unless somebody asks for another: a change must not fail or pass by luck. */
function chooseSeed(asked: string | undefined): string {
  if (asked === 'random') return String(randomInt(2 ** 31))
  return asked !== undefined && /^\d+$/.test(asked) ? asked : '26'
}

function choose(
  files: TestFiles,
  only: readonly string[],
  wants: (part: string) => boolean,
): { unit: readonly string[]; endToEnd: readonly string[] } {
  const words = only.filter((word) => !['static', 'unit', 'e2e'].includes(word)).map((word) => path.normalize(word))
  const named = (file: string): boolean => words.some((word) => path.relative(root, file).includes(word))
  return {
    unit: wants('unit') ? files.unit : files.unit.filter(named),
    endToEnd: wants('e2e') ? files.endToEnd : files.endToEnd.filter(named),
  }
}

/** Two at a time, mostly waiting for downloads. A test that needs one that failed says so itself. */
async function prepareTools(chosen: readonly string[], files: TestFiles): Promise<void> {
  const names = [...new Set(chosen.flatMap((file) => files.tools.get(file) ?? []))]
  const lane = async (): Promise<void> => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) await prepareTool(name)
  }
  await Promise.all([lane(), lane()])
}

async function runStaticChecks(totals: Totals): Promise<void> {
  const checks: [name: string, script: string, ...args: string[]][] = [
    ['format (fix: npm run format)', 'prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.'],
    ['lint', 'oxlint/bin/oxlint', '--type-aware', '--deny-warnings'],
    ['types', 'typescript/bin/tsc', '--noEmit'],
    ['types of the console', 'typescript/bin/tsc', '--noEmit', '-p', 'src/console'],
  ]
  const results: { name: string; isGood: boolean; output: string }[] = []
  for (const [name, script, ...args] of checks) {
    const { code, output } = await capture(path.join(root, 'node_modules', script), args)
    results.push({ name, isGood: code === 0, output: code === 0 ? '' : output })
  }
  results.push(...(await checkSupplyChain(root)))
  title('static checks')
  for (const { name, isGood, output } of results) {
    process.stdout.write(`${isGood ? '✔' : '✖'} ${name}\n${output}`)
    if (isGood) totals.passed++
    else totals.failed++
  }
}

function capture(script: string, args: readonly string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? 1, output }))
  })
}

/** So many files may be run a second time; more than that is no accident of a busy machine. */
const mostSecondRuns = 3

/**
 * Files that run beside each other. A file that failed is run once more, alone, at the end: on cores that other files keep
 * busy a real client and real processes may run into a timeout. Both runs are printed, and the second one counts.
 */
class TestLanes {
  readonly #totals: Totals
  readonly #waiting: (() => Promise<void>)[] = []
  readonly #failed: FileResult[] = []
  #isComplete = false
  #more = Promise.withResolvers<void>()
  #lanes: Promise<void>[] = []

  constructor(totals: Totals) {
    this.#totals = totals
  }

  add(jobs: readonly (() => Promise<void>)[]): void {
    this.#waiting.push(...jobs)
    this.#wakeAll()
  }

  addFiles(files: readonly string[]): void {
    this.add(longestFirst(root, files).map((file) => () => this.#run(file)))
  }

  start(): void {
    const count = Math.max(2, Math.min(8, availableParallelism()))
    this.#lanes = Array.from({ length: count }, () => this.#lane())
  }

  /** Nothing more is added. Resolves when all has run. */
  async end(): Promise<void> {
    this.#isComplete = true
    this.#wakeAll()
    await Promise.all(this.#lanes)
    const isWorthASecondRun = this.#failed.length <= mostSecondRuns
    for (const first of this.#failed) {
      if (!isWorthASecondRun) add(this.#totals, first)
      else await this.#runAgain(first.file)
    }
  }

  async #lane(): Promise<void> {
    for (;;) {
      const job = this.#waiting.shift()
      if (job !== undefined) await job()
      else if (this.#isComplete) return
      else await this.#more.promise
    }
  }

  #wakeAll(): void {
    this.#more.resolve()
    this.#more = Promise.withResolvers()
  }

  async #run(file: string): Promise<void> {
    const result = await runTestFile(file)
    process.stdout.write(result.output)
    if (result.failed > 0) this.#failed.push(result)
    else add(this.#totals, result)
  }

  async #runAgain(file: string): Promise<void> {
    const shown = path.relative(root, file)
    title(`once more, alone: ${shown}`)
    const again = await runTestFile(file)
    process.stdout.write(again.output)
    add(this.#totals, again)
    if (again.failed === 0) this.#totals.secondRun.push(shown)
  }
}

function add(totals: Totals, { file, passed, failed, skipped, durationMs }: FileResult): void {
  totals.times.push({ file: path.relative(root, file), secs: Math.round(durationMs / 1000) })
  totals.passed += passed
  totals.failed += failed
  totals.skipped += skipped
}

/** The files that can run. Without Python those that need it are reported as not run, which is a failure unless allowed. */
async function withPython(
  endToEnd: readonly string[],
  files: TestFiles,
  preparing: ReturnType<typeof preparePython> | null,
  totals: Totals,
): Promise<readonly string[]> {
  if (preparing === null) return endToEnd
  const environment = await preparing
  if ('python' in environment) {
    process.env['GALATEA_TEST_PYTHON'] = environment.python
    return endToEnd
  }
  const left = endToEnd.filter((file) => files.python.has(file)).map((file) => path.relative(root, file))
  title(`not run, because there is no Python for them: ${left.length} files`)
  process.stdout.write(`${environment.missingBecause}\n${left.map((file) => `  ${file}\n`).join('')}`)
  if (process.env['GALATEA_SKIP_PYTHON'] === '1') process.stdout.write('allowed by GALATEA_SKIP_PYTHON=1\n')
  else totals.notRun.push(...left)
  return endToEnd.filter((file) => !files.python.has(file))
}

function title(text: string): void {
  process.stdout.write(`\n── ${text} ──\n`)
}

function report(totals: Totals, durationMs: number): void {
  const { passed, failed, skipped, notRun, secondRun, times } = totals
  const slowest = times.toSorted((one, other) => other.secs - one.secs).slice(0, 12)
  const lines = [
    '',
    `slowest files: ${slowest.map(({ file, secs }) => `${file} ${secs} s`).join(', ')}`,
    `ℹ tests ${passed + failed + skipped}`,
    `ℹ pass ${passed}`,
    `ℹ fail ${failed}`,
    `ℹ skipped ${skipped}`,
    `ℹ duration_ms ${Math.round(durationMs)}`,
    `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}` +
      (notRun.length > 0 ? `, ${notRun.length} files not run (GALATEA_SKIP_PYTHON=1 allows that)` : ''),
    ...secondRun.map((file) => `passed only when it ran alone, mend it: ${file}`),
    '',
  ]
  process.stdout.write(lines.join('\n'))
}

process.exitCode = await main()
