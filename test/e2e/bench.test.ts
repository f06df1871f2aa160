// Benchmarks are run by hand; this keeps them runnable. What they measure here means nothing.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { projectRoot } from './server-process.ts'

const bench = async (...flags: string[]): Promise<string> =>
  (await promisify(execFile)(process.execPath, [path.join(projectRoot, 'bench/run.ts'), ...flags])).stdout

const kept = (): (string | null)[] =>
  ['bench/results.json', 'docs/internals/benchmarks.md'].map((file) => {
    const place = path.join(projectRoot, file)
    return existsSync(place) ? readFileSync(place, 'utf8') : null
  })

test('a benchmark runs, prints its figures and writes nothing unless told to', async () => {
  const before = kept()
  const output = await bench('large-tensor', '--rounds', '1', '--seconds', '0.01')
  assert.match(output, /16 MiB there and back.* \d+\.\d+ GB\/s/)
  assert.match(output, /CPU: 16 MiB there and back.* \d+\.\d+ ×/)
  assert.deepEqual(kept(), before)
})

test(
  'the benches for a GPU are whole programs, and their README says what each shows',
  { skip: process.env['GALATEA_SKIP_PYTHON'] === '1' ? 'GALATEA_SKIP_PYTHON' : false },
  async () => {
    const python = process.env['GALATEA_TEST_PYTHON'] ?? 'python3'
    const folder = path.join(projectRoot, 'bench/gpu')
    const readme = readFileSync(path.join(folder, 'README.md'), 'utf8')
    for (const file of globSync('*.py', { cwd: folder })) {
      if (file === 'gpu_bench.py') continue
      assert.ok(readme.includes(`| \`${file}\` |`), `the README says what ${file} shows`)
      const { stdout } = await promisify(execFile)(python, [path.join(folder, file), '--help'])
      assert.match(stdout, /--cpu +try the script out where there is no GPU/)
    }
  },
)

test('--list names every benchmark', async () => {
  const output = await bench('--list')
  for (const file of globSync('*.bench.ts', { cwd: path.join(projectRoot, 'bench') })) {
    assert.match(output, new RegExp(`^${path.basename(file, '.bench.ts')} `, 'm'))
  }
})

test('an unknown benchmark is refused with the names of those there are', async () => {
  await assert.rejects(bench('nope'), (reason: { code: number; stdout: string }) => {
    assert.equal(reason.code, 1)
    assert.match(reason.stdout, /there is no benchmark 'nope': .*small-infer/)
    return true
  })
})

test('the suite writes its table of targets, its figures and its charts', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-suite-test-'))
  try {
    const flags = ['--quick', '--rounds', '2', '--seconds', '0.02', '--only', 'ensemble', '--out', folder]
    const output = await bench('suite', ...flags)
    assert.match(output, /ensemble, grpc, c=64: Galatea \d+ µs CPU/)
    const page = readFileSync(path.join(folder, 'suite.md'), 'utf8')
    assert.match(page, /\| CPU: identity, HTTP binary, c=16 \| – .*not measured/)
    assert.match(page, /\| gRPC \| all \| 64 \| Galatea \| \d+ ± \d+ % /)
    const { cases } = JSON.parse(readFileSync(path.join(folder, 'suite.json'), 'utf8')) as { cases: { load: object }[] }
    assert.ok(cases.some(({ load }) => 'perSecond' in load))
    for (const name of ['cpu-grpc.svg', 'throughput-ensemble.svg']) {
      assert.match(readFileSync(path.join(folder, name), 'utf8'), /^<svg /)
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
