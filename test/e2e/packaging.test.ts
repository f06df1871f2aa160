// The package as a user gets it: packed, installed in an empty folder, started there.

import assert from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { testPython } from './python-checks.ts'
import { anyPort, exampleModels, projectRoot } from './server-process.ts'
import { until } from '../until.ts'

const requiredMajor = 26
const folder = mkdtempSync(path.join(tmpdir(), 'galatea-package-'))
const installed = path.join(folder, 'app')
const models = path.join(folder, 'models')

// Nothing of this checkout may help: not its node_modules/.bin, not what `npm test` says about the package under test.
const searchPath = (process.env['PATH'] ?? '')
  .split(path.delimiter)
  .filter((entry) => !entry.startsWith(projectRoot) && !entry.includes('node_modules'))
const environment = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^npm_(package|lifecycle|command|config_(local_prefix|prefix|ignore_scripts))|^INIT_CWD$|^NODE_TEST/.test(
          name,
        ),
    ),
  ),
  PATH: searchPath.join(path.delimiter),
}

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env: environment, encoding: 'utf8' })
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}\n${stderr}`)
  return stdout
}

class Started {
  readonly child: ChildProcess
  output = ''
  readonly exited: Promise<number | null>

  constructor(command: string, args: readonly string[], cwd: string) {
    // A group of its own: npx starts further processes, and all of them must be gone after the test.
    this.child = spawn(command, args, { cwd, env: environment, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    this.exited = once(this.child, 'close').then(([code]) => code as number | null)
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    }
  }

  async listening(): Promise<string> {
    const address = (): string | undefined => {
      assert.equal(this.child.exitCode, null, `ended before it listened:\n${this.output}`)
      return /Started HTTPService at ([\d.:]+)/.exec(this.output)?.[1]
    }
    return `http://${await until(address, 'an address', { seen: () => this.output })}`
  }

  [Symbol.dispose](): void {
    try {
      process.kill(-(this.child.pid ?? 0), 'SIGKILL')
    } catch {
      // All of the group are gone already.
    }
  }
}

async function assertAnswers(url: string): Promise<void> {
  const data = Array.from({ length: 16 }, (_, i) => i)
  const input = (name: string): object => ({ name, shape: [1, 16], datatype: 'INT32', data })
  const body = JSON.stringify({ inputs: [input('INPUT0'), input('INPUT1')] })
  const response = await fetch(`${url}/v2/models/simple/infer`, { method: 'POST', body })
  const { outputs } = (await response.json()) as { outputs: { data: number[] }[] }
  assert.deepEqual(
    outputs[0]?.data,
    data.map((value) => 2 * value),
  )
}

before(() => {
  mkdirSync(installed)
  cpSync(exampleModels, models, { recursive: true })
  run('npm', ['pack', '--pack-destination', folder], projectRoot)
  writeFileSync(path.join(installed, 'package.json'), '{ "private": true }\n')
  const manifest = readFileSync(path.join(projectRoot, 'package.json'), 'utf8')
  const { version } = JSON.parse(manifest) as { version: string }
  const tarball = path.join(folder, `galatea-${version}.tgz`)
  // No dependency needs its install script.
  run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', tarball], installed)
})
after(() => rmSync(folder, { recursive: true, force: true }))

test('the installed package serves with npx galatea', async () => {
  using started = new Started('npx', ['galatea', '--model-repository', models, ...anyPort], installed)
  await assertAnswers(await started.listening())
})

/** What runs in threads and processes is found by where the module lies that starts it, and the command is bundled. */
test('the installed package finds the programs of its threads and processes', async () => {
  const repository = path.join(folder, 'kinds')
  for (const name of ['simple', 'digits', 'digit_image']) {
    cpSync(path.join(exampleModels, name), path.join(repository, name), { recursive: true })
  }
  cpSync(path.join(projectRoot, 'examples/python/add_sub'), path.join(repository, 'add_sub'), { recursive: true })
  const flags = ['--backend-config', `python,interpreter=${testPython()}`, '--http-address', '127.0.0.1']
  using started = new Started('npx', ['galatea', '--model-repository', repository, ...anyPort, ...flags], installed)
  const url = await started.listening()
  const index = await fetch(`${url}/v2/repository/index`, { method: 'POST' })
  const states = ((await index.json()) as { name: string; state: string }[]).map(
    ({ name, state }) => `${name} ${state}`,
  )
  assert.deepEqual(states.toSorted(), ['add_sub READY', 'digit_image READY', 'digits READY', 'simple READY'])
  await assertAnswers(url)
  // So many numbers are read by a thread.
  const count = 400_000
  const inputs = ['INPUT0', 'INPUT1'].map((name) => ({
    name,
    shape: [count / 16, 16],
    datatype: 'INT32',
    data: Array.from({ length: count }, () => 1_000_000),
  }))
  const large = await fetch(`${url}/v2/models/simple/infer`, { method: 'POST', body: JSON.stringify({ inputs }) })
  assert.match(await large.text(), /batch|2000000/)
  const perf = ['perf', '-m', 'add_sub', '-u', url.slice('http://'.length), '--request-count', '50', '--shape']
  assert.match(run('npx', ['galatea', ...perf, 'INPUT0:4', '--shape', 'INPUT1:4'], installed), /Throughput: \d/)
  assert.match(run('npx', ['galatea', 'check', repository], installed), /0 errors/)
})

const entryPoints: [specifier: string, exported: string][] = [
  ['galatea', 'createEngine'],
  ['galatea/client', 'createGrpcClient'],
  ['galatea/client/http', 'createHttpClient'],
  ['galatea/model', 'defineModel'],
]
for (const [specifier, exported] of entryPoints) {
  test(`the installed package can be imported: ${exported} of '${specifier}' is there`, () => {
    const code = `import('${specifier}').then((entry) => console.log(typeof entry.${exported}))`
    assert.equal(run(path.join(installed, 'node_modules/.bin/node'), ['-e', code], installed), 'function\n')
  })
}

/** A Node on this machine that is older than the one Galatea needs, or null. */
function findOlderNode(): string | null {
  for (const entry of searchPath) {
    const candidate = path.join(entry, 'node')
    try {
      accessSync(candidate, constants.X_OK)
    } catch {
      continue
    }
    const { stdout } = spawnSync(candidate, ['--version'], { encoding: 'utf8' })
    if (Number(/^v(\d+)/.exec(stdout)?.[1] ?? Infinity) < requiredMajor) return candidate
  }
  return null
}

const olderNode = findOlderNode()
const skip = olderNode === null ? `every Node on PATH is version ${requiredMajor} or newer` : false

describe('started by a Node that is too old', { skip }, () => {
  const old = olderNode ?? ''
  const launcher = path.join(installed, 'node_modules/galatea/bin/galatea.js')

  test('galatea runs on the Node that npm installed beside it, and keeps its exit code', () => {
    assert.match(run(old, [launcher, '--version'], installed), new RegExp(`\\(Node v${requiredMajor}\\.`))
    const { status, stderr } = spawnSync(old, [launcher, '--no-such-flag'], { env: environment, encoding: 'utf8' })
    assert.equal(status, 1)
    assert.match(stderr, /unrecognized option/)
  })

  test('galatea serves, and ends by a signal as ever', async () => {
    using started = new Started(old, [launcher, '--model-repository', models, ...anyPort], installed)
    await assertAnswers(await started.listening())
    started.child.kill('SIGTERM')
    assert.equal(await started.exited, 0, started.output)
  })

  test('galatea says what to do when the other Node is missing', () => {
    const lonely = path.join(folder, 'lonely')
    mkdirSync(path.join(lonely, 'bin'), { recursive: true })
    writeFileSync(path.join(lonely, 'package.json'), '{ "type": "module" }\n')
    cpSync(launcher, path.join(lonely, 'bin/galatea.js'))
    const { status, stderr } = spawnSync(old, [path.join(lonely, 'bin/galatea.js')], {
      env: environment,
      encoding: 'utf8',
    })
    assert.equal(status, 1)
    assert.match(stderr, /needs Node 26 or newer[\s\S]*npm install --include=optional/)
  })
})
