// The tables of docs/reference/limits.md are complete and true: every flag that is a bound is in them, and the server is driven over
// every limit.

import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Flag } from '../../src/options/flag.ts'
import { flagsByName, flagTable } from '../../src/options/flag-table.ts'
import { createIdentityRepository } from './identity-repository.ts'
import { constantsApart } from './constants-apart.ts'
import { constantsOfRows } from './limit-constants.ts'
import { limitDrivers, smallLimits } from './limit-drivers.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const read = (file: string): string => readFileSync(path.join(projectRoot, file), 'utf8')

type LimitRow = {
  readonly limit: string
  readonly flags: readonly string[]
  readonly byDefault: string
  readonly tritonDefault: string
  readonly effect: string
  readonly metrics: readonly string[]
}

const namesIn = (cell: string): string[] => [...cell.matchAll(/`(?:--)?([a-z][\w-]*)`/g)].map(([, name = '']) => name)

const rows: readonly LimitRow[] = read('docs/reference/limits.md')
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| limit |'))
  .map((line) => {
    const cells = line.split('|').map((cell) => cell.trim())
    assert.equal(cells.length, 8, `six cells in: ${line}`)
    const [, limit = '', flags = '', byDefault = '', tritonDefault = '', effect = '', metrics = ''] = cells
    return { limit, flags: namesIn(flags), byDefault, tritonDefault, effect, metrics: namesIn(metrics) }
  })

/** Flags that are named like a bound and are none on what clients or models may take. */
const noBounds: Readonly<Record<string, string>> = {
  'rate-limit': 'which instance runs next',
  'rate-limit-resource': 'which instance runs next',
  'repository-poll-secs': 'how often the server itself looks',
  'model-load-retry-count': 'how often the server itself tries',
  'grpc-keepalive-time': 'how often the server itself pings',
  'response-cache-byte-size': 'the old form of --cache-config',
  'trace-count': 'how much is traced: the old form of --trace-config',
  'tfserving-model-config-poll-secs': 'how often the server itself looks',
  'metrics-interval-ms': 'how often the server itself looks',
  'pinned-memory-pool-byte-size': 'what is kept between batches: nothing is refused',
  'cuda-memory-pool-byte-size': 'what is kept between batches: nothing is refused',
}

const isBound = ({ name, traits }: Flag): boolean =>
  traits.status !== 'accepted' && /(^|-)(max|limit|timeout|size|secs|count|age|backlog|pings|bytes)(-|$)/.test(name)

describe('docs/reference/limits.md', () => {
  test('names flags and metrics that there are', () => {
    const metrics = read('docs/reference/metrics.md')
    for (const row of rows) {
      for (const name of row.flags) assert.ok(flagsByName.has(name), `--${name} of '${row.limit}'`)
      for (const name of row.metrics) assert.ok(metrics.includes(`\`${name}\``), `${name} of '${row.limit}'`)
      assert.ok(row.byDefault !== '' && row.effect !== '', row.limit)
    }
  })

  test('has every flag that is a bound', () => {
    const named = new Set(rows.flatMap(({ flags }) => flags))
    const missing = flagTable.filter((flag) => isBound(flag) && !named.has(flag.name) && !(flag.name in noBounds))
    assert.deepEqual(
      missing.map(({ name }) => `--${name}`),
      [],
    )
  })

  test("says what --triton-defaults changes, where it changes the limit's flag", () => {
    for (const { limit, flags, tritonDefault } of rows) {
      const changes = flags.some((name) => {
        const flag = flagsByName.get(name)
        return flag !== undefined && flag.traits.tritonDefault !== flag.default
      })
      if (changes) assert.notEqual(tritonDefault, '', limit)
    }
  })

  test('has every constant that is a bound, or there is a reason why not', () => {
    const bound = /^(?:export )?const ((?:most|max|longest|largest|MAX_|MOST_)(?!U?[Ii]nt\d)[A-Z]\w*)/gm
    // What runs as a client of a server, or in a browser, bounds nothing that the server does.
    const files = globSync('**/*.ts', { cwd: path.join(projectRoot, 'src') }).filter(
      (file) => !/\.test\.ts$|^(client|console|perf|tune)\//.test(file),
    )
    const found = files.flatMap((file) =>
      [...read(path.join('src', file)).matchAll(bound)].map(([, name = '']) => `${file} ${name}`),
    )
    const known = [...Object.values(constantsOfRows), ...Object.values(constantsApart)].flat()
    assert.deepEqual(found.toSorted(), known.toSorted(), 'a new bound needs a line in test/e2e/limit-constants.ts')
    const limits = new Set(rows.map(({ limit }) => limit))
    for (const limit of Object.keys(constantsOfRows)) assert.ok(limits.has(limit), limit)
  })

  test('has a driver for every row, and no driver is left over', () => {
    assert.deepEqual(
      rows.map(({ limit }) => limit).toSorted(),
      Object.keys(limitDrivers).toSorted(),
      'a new row needs a driver in test/e2e/limit-drivers.ts',
    )
  })
})

describe('over the edge', { concurrency: 1 }, () => {
  let server: ServerProcess
  let repository: Awaited<ReturnType<typeof createIdentityRepository>>
  before(async () => {
    repository = await createIdentityRepository()
    server = await startServerProcess([`--model-repository=${repository.path}`, ...smallLimits])
  })
  after(async () => {
    await server?.stop()
    await repository?.[Symbol.asyncDispose]()
  })

  for (const [limit, driver] of Object.entries(limitDrivers)) {
    test(limit, async () => {
      if (typeof driver === 'function') return driver(server)
      assert.ok(existsSync(path.join(projectRoot, driver.file)), driver.file)
      assert.ok(read(driver.file).includes(driver.says), `'${driver.says}' is not in ${driver.file}`)
    })
  }

  test('the server is as it was', async () => {
    assert.equal((await fetch(`${server.url}/v2/health/ready`)).status, 200)
  })
})
