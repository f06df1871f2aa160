// The rules of the house that no compiler knows: who imports whom, sizes, names, forbidden calls.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { allowedImports as allowed } from './tidy/allowed-imports.ts'
import { findImportCycles } from './tidy/import-cycles.ts'
import { findUnusedExports } from './tidy/unused-exports.ts'

const root = path.join(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')
const find = (...patterns: string[]): string[] =>
  globSync(patterns, { cwd: root, exclude: (name) => /(^|\/)(node_modules|dist|\.cache|__pycache__)$/.test(name) })
    .filter((file) => !file.startsWith('test/fixtures/'))
    .sort()

const code = find(
  'src/**/*.ts',
  'src/console/*.tsx',
  'test/**/*.ts',
  'scripts/**/*.ts',
  'bench/**/*.ts',
  'examples/**/*.ts',
  'templates/**/*.ts',
  'bin/*.js',
)
const isTest = (file: string): boolean => /\.(test|contract)\.ts$/.test(file)
const sources = code.filter((file) => file.startsWith('src/') && !isTest(file))

/** Each file once, with what is wrong with it; the test fails with the whole list. */
function assertNone(offences: readonly string[]): void {
  assert.deepEqual(offences, [])
}

describe('imports', () => {
  const folderOf = (file: string): string => (file.split('/').length === 2 ? 'server' : (file.split('/')[1] ?? ''))
  /** `backends/onnx` of src/backends/onnx/x.ts; '' where a folder has no parts. */
  const partOf = (file: string): string => {
    const [, folder = '', part = '', rest] = file.split('/')
    if (rest === undefined || (folder !== 'backends' && folder !== 'frontends')) return ''
    // What the backends share that run models in a process.
    if (part === 'worker-process') return ''
    // Custom backends are written in TypeScript and run in the Workers of TypeScript models: two doors of one room.
    return `${folder}/${part === 'custom' ? 'typescript' : part}`
  }

  const arrows = sources.flatMap((file) =>
    [...read(file).matchAll(/(?:from|import\(|import) ?'(\.[^']+)'/g)].map((match) => ({
      file,
      target: path.posix.join(path.posix.dirname(file), match[1] ?? ''),
    })),
  )

  test('are found at all', () => {
    assert.ok(arrows.length > 100, `only ${arrows.length}`)
  })

  test('point only where the house style allows', () => {
    assertNone(
      arrows
        .filter(({ file, target }) => {
          const [from, to] = [folderOf(file), folderOf(target)]
          return from !== 'server' && from !== to && !(allowed[from] ?? []).includes(to)
        })
        .map(({ file, target }) => `${file} imports ${target}`),
    )
  })

  test('never join two backends or two front ends', () => {
    assertNone(
      arrows
        .filter(({ file, target }) => {
          const [from, to] = [partOf(file), partOf(target)]
          return folderOf(file) === folderOf(target) && from !== '' && to !== '' && from !== to
        })
        .map(({ file, target }) => `${file} imports ${target}`),
    )
  })

  test('never run in a circle, not even those of types', () => {
    const targets = Map.groupBy(arrows, ({ file }) => file)
    const graph = new Map(sources.map((file) => [file, (targets.get(file) ?? []).map(({ target }) => target)]))
    assertNone(findImportCycles(graph))
  })

  test('do not read the code of rollouts, or of protocols that are off, at the start of a server', () => {
    // Imports of types are gone when the program runs, and `await import` waits for its moment.
    const loads = /^(?:import (?!type\b)(?:[^'";]*? from )?|export [{*][^'";]*? from )'(\.[^']+)'/gm
    const seam = new Set(['src/releases/find-rollout-file.ts', 'src/releases/has-kept-releases.ts'])
    const loaded = new Set(['src/server.ts', 'src/grpc-front-ends.ts'])
    for (const file of loaded) {
      for (const [, target = ''] of read(file).matchAll(loads))
        loaded.add(path.posix.join(path.posix.dirname(file), target))
    }
    assert.ok(loaded.size > 200, `only ${loaded.size}`)
    const unwanted = /^src\/(rollouts|releases|jobs)\/|\/(tfserving|torchserve|sagemaker|vertex-ai)\/|\/openapi/
    assertNone([...loaded].filter((file) => unwanted.test(file) && !seam.has(file)))
  })

  test('name folders that the rule knows', () => {
    assertNone(sources.map(folderOf).filter((folder) => folder !== 'server' && allowed[folder] === undefined))
  })

  test('are there for every export: what nobody imports is not exported', () => {
    /** What the package and its launcher offer to others. */
    const doors = ['src/index.ts', 'src/backends/typescript/model-api.ts', 'src/client/web.ts', 'src/client/node.ts']
    const launched = ['src/cli/main.ts: main']
    const texts = (files: readonly string[]): Map<string, string> => new Map(files.map((file) => [file, read(file)]))
    const users = texts([...code, ...globSync('test/fixtures/**/*.ts', { cwd: root })])
    const found = findUnusedExports(texts(sources.filter((file) => !doors.includes(file))), users)
    assertNone(found.filter((each) => !launched.includes(each)))
  })

  test('are of named exports: nothing exports a default', () => {
    // Models and configuration files are read by others, who may ask for a default.
    assertNone(code.filter((file) => !file.startsWith('examples/') && /^export default\b/m.test(read(file))))
  })
})

describe('files', () => {
  /** Tables that are long because the thing they list is. */
  const longTables: readonly string[] = []

  test('stay under 600 lines', () => {
    assertNone(
      code
        .filter((file) => !longTables.includes(file))
        .map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
        .filter(({ lines }) => lines > 600)
        .map(({ file, lines }) => `${file}: ${lines} lines`),
    )
  })

  test('have names in kebab-case that name the thing, not the shelf', () => {
    const shelves = ['utils', 'util', 'helpers', 'helper', 'common', 'types', 'manager', 'handler', 'info', 'misc']
    assertNone(
      code.filter((file) => {
        const stem = path.basename(file).replace(/(\.(test|contract|bench|fuzz))*\.(tsx?|js)$/, '')
        const words = stem.split('-')
        const isShelf = stem === 'data' || shelves.includes(words.at(-1) ?? '')
        return isShelf || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(stem)
      }),
    )
  })
})

describe('calls', () => {
  const withoutComments = (text: string): string => text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\/\/.*$/gm, '')

  const found = (forbidden: RegExp): { readonly file: string; readonly text: string }[] =>
    sources.flatMap((file) => {
      const call = forbidden.exec(withoutComments(read(file)))
      return call === null ? [] : [{ file, text: `${file}: ${call[0]}` }]
    })

  test('to wall clocks and timers do not happen in the server: time comes in as a Clock', () => {
    const forbidden = /\b(Date\.now|new Date\(\)|performance\.now|process\.hrtime|(?<!\.)set(Timeout|Interval))/
    /** The SDK and the two programs that measure a server from outside have no server's Clock. */
    const outside = /^src\/(client|console|perf|tune)\//
    const reasons: Readonly<Record<string, string>> = {
      'src/base/clock.ts': 'the Clock itself',
      'src/base/exact-waits.ts': 'a part of the Clock',
      'src/backends/onnx/fallback/javascript-thread.ts': 'a thread of its own measures its runs',
      'src/backends/onnx/native/carrier-thread.ts': 'a thread of its own measures its runs',
      'src/cuda/gpu-thread-program.ts': 'a thread of its own measures its runs',
      'src/backends/typescript/model-worker.ts': 'a Worker asks its model whether it is ready',
      'src/backends/llamacpp/engine/engine-program.ts': 'a process of its own measures its steps',
      'src/cli/access-log-writer.ts': 'lines carry the time of day',
      'src/cli/log-sink.ts': 'the log is there before the Clock and after it',
      'src/cli/log-writer.ts': 'lines carry the time of day',
      'src/cli/exit-signals.ts': 'a parent may end before there is a server',
      'src/cli/shutdown.ts': 'a signal may come before there is a server',
      'src/cli/return-memory.ts': 'waits until the process is idle, after the start',
      'src/cli/tune-collector.ts': 'looks at the heap of the process, after the start',
      'src/frontends/v2-http/metadata-endpoints.ts': 'how late the event loop is shows in real time alone',
      'src/base/left-lock.ts': 'compares with the time of a file, which another process set',
      'src/repository/cloud/blob-cache.ts': 'compares with the times of files',
      'src/repository/cloud/cache-lease.ts': 'compares with the times of files, which other processes set',
    }
    const calls = found(forbidden).filter(({ file }) => !outside.test(file))
    assertNone(calls.filter(({ file }) => reasons[file] === undefined).map(({ text }) => text))
    assertNone(Object.keys(reasons).filter((name) => !calls.some(({ file }) => file === name)))
  })

  test('to chance do not happen in scheduling and engine: a test can repeat what they do', () => {
    const chances = found(/\bMath\.random\b/).filter(({ file }) => /^src\/(scheduling|engine)\//.test(file))
    assertNone(chances.map(({ text }) => text))
  })

  test('to read code when it is needed do not end the server where that fails', () => {
    assertNone(found(/\bvoid import\(/).map(({ text }) => text))
  })

  test('of tests that wait go through `until`, which has a deadline', () => {
    const loop = /\bwhile \(.*\)\s*\{?\s*await (new Promise|delay|once|fetch)\b/
    const tests = code.filter((file) => isTest(file) || file.startsWith('test/'))
    assertNone(tests.filter((file) => loop.test(withoutComments(read(file)))))
  })

  test('to clocks of the processor do not happen in tests: a test counts, and holds on a slow machine', () => {
    const forbidden = /\b(cpuUsage\(|threadCpuUsage|hrtime|performance\.now)/
    const reasons: Readonly<Record<string, string>> = {
      'src/base/exact-waits.test.ts': 'an alarm is never early; how late it is does not matter',
      'src/cli/return-memory.test.ts': 'keeps a thread busy',
      'src/frontends/metrics/metrics-routes.test.ts': 'keeps a thread busy',
      'test/conformance/golden/run-step.ts': 'the deadline of a wait for what was recorded',
      'test/conformance/http-differential-fuzz.test.ts': 'a seed, where none is given',
      'test/conformance/http-fuzz.test.ts': 'a seed, where none is given',
      'test/conformance/measured-server.ts': 'the longest turn, beside a fixed piece of work',
      'test/e2e/attack-scenario.ts': 'figures for a benchmark',
      'test/e2e/attacker.ts': 'an attack of so many seconds',
      'test/e2e/console/console.test.ts': 'a recording of so many seconds',
      'test/e2e/health.test.ts': 'keeps a thread busy',
      'test/e2e/ledger.test.ts': 'a figure that is printed',
      'test/e2e/python-parking.test.ts': 'orders moments, and compares no lengths',
      'test/tidy.test.ts': 'names what it forbids',
      'test/until.ts': 'the deadline of a wait',
    }
    const tests = code.filter((file) => isTest(file) || file.startsWith('test/'))
    const callers = tests.filter((file) => forbidden.test(withoutComments(read(file))))
    assertNone(callers.filter((file) => reasons[file] === undefined))
    assertNone(Object.keys(reasons).filter((file) => !callers.includes(file)))
  })

  test('to the console do not happen in the server: it has a Log', () => {
    // The pages of src/console show programs to paste, and those may print.
    const server = sources.filter((file) => !file.startsWith('src/console/'))
    assertNone(server.filter((file) => /\bconsole\.\w+\(/.test(withoutComments(read(file)))))
  })
})

describe('text', () => {
  const texts = [
    ...code,
    ...find(
      '*.md',
      'docs/**/*.md',
      '{examples,templates}/**/*.{md,pbtxt,py}',
      'python/**/*.py',
      'test/**/*.py',
      'package.json',
    ),
  ]

  test('holds no promises to do something later', () => {
    const promise = /\b(TODO|FIXME|XXX)\b/
    assertNone(texts.filter((file) => file !== 'test/tidy.test.ts' && promise.test(read(file))))
  })

  test('holds no paths of the machine it was written on', () => {
    const folders = ['work', 'root', 'home', 'Users']
    const machinePath = new RegExp(`(^|[^\\w.}*])/(${folders.join('|')})/\\w`, 'm')
    assertNone(
      texts.flatMap((file) => {
        const found = machinePath.exec(read(file))
        return found === null ? [] : [`${file}: ${found[0]}`]
      }),
    )
  })
})
