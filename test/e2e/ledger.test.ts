// Clients are served without a gap while models are reloaded, scaled, broken and killed under them: the books are kept
// from the first request to the last.

import assert from 'node:assert/strict'
import { readdir, readFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { buildOnnx } from '../fixtures/onnx/build-onnx.ts'
import { LedgerClient, type Entry } from './ledger-client.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

/** Each with two reloads, a scale change and the end of a worker; every other one with a reload that fails. */
const cycles = 100

/** The index still lists a version that is gone, with its reason. */
const keptPerReload = 40_000

type Kind = 'onnx' | 'thread' | 'process'

/** OUT = IN × its own number: clients send 1. */
const onnxModel = (version: number): Buffer =>
  buildOnnx({
    nodes: [{ op: 'Mul', inputs: ['IN', 'VERSION'], outputs: ['OUT'] }],
    inputs: [{ name: 'IN', type: 'INT32', shape: [1] }],
    outputs: [{ name: 'OUT', type: 'INT32', shape: [1] }],
    initializers: [{ name: 'VERSION', type: 'INT32', dims: [1], raw: new Uint8Array(Int32Array.of(version).buffer) }],
  })

/** Answers with its own number; dies when it is told to. */
const scriptModel = (version: number): string =>
  [
    "import { defineModel, tensor } from 'galatea/model'",
    'export default defineModel({',
    '  infer(request) {',
    "    if (request.inputs.get('IN').asInt32()[0] === 666) process.exit(1)",
    `    return [tensor('OUT', 'INT32', [1], Int32Array.of(${version}))]`,
    '  },',
    '})',
  ].join('\n')

class ModelFolder {
  readonly name: string
  readonly #folder: string
  readonly #kind: Kind
  #version = 0
  #instances: number

  constructor(root: string, name: string, kind: Kind, instances: number) {
    this.name = name
    this.#folder = path.join(root, name)
    this.#kind = kind
    this.#instances = instances
  }

  async writeVersion(): Promise<void> {
    this.#version++
    await this.#write(this.#version, this.#kind === 'onnx' ? onnxModel(this.#version) : scriptModel(this.#version))
    await this.scale(this.#instances)
    await rm(path.join(this.#folder, String(this.#version - 2)), { recursive: true, force: true })
  }

  /** The result takes it away again. */
  async writeBroken(): Promise<() => Promise<void>> {
    const broken = this.#version + 1000
    await this.#write(broken, 'not a model')
    return () => rm(path.join(this.#folder, String(broken)), { recursive: true })
  }

  async scale(instances: number): Promise<void> {
    this.#instances = instances
    const text = `
      backend: "${this.#kind === 'onnx' ? 'onnxruntime' : 'typescript'}"
      input { name: "IN" data_type: TYPE_INT32 dims: 1 }
      output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
      instance_group { kind: KIND_CPU count: ${instances} }
      ${this.#kind === 'onnx' ? '' : `parameters { key: "isolation" value { string_value: "${this.#kind}" } }`}
    `
    await writeFile(path.join(this.#folder, 'config.pbtxt'), text)
  }

  async #write(version: number, content: string | Uint8Array): Promise<void> {
    const folder = path.join(this.#folder, String(version))
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, this.#kind === 'onnx' ? 'model.onnx' : 'model.ts'), content)
  }
}

async function load(server: ServerProcess, model: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${server.url}/v2/repository/models/${model}/load`, { method: 'POST' })
  return { status: response.status, text: await response.text() }
}

async function loadAnew(server: ServerProcess, model: ModelFolder): Promise<void> {
  await model.writeVersion()
  assert.deepEqual(await load(server, model.name), { status: 200, text: '' })
}

async function scale(server: ServerProcess, model: ModelFolder, instances: number): Promise<void> {
  await model.scale(instances)
  assert.deepEqual(await load(server, model.name), { status: 200, text: '' })
}

/** Workers that are processes of their own: the server's children. */
async function workerProcesses(server: ServerProcess): Promise<number[]> {
  const tasks = await readdir(`/proc/${server.pid}/task`)
  const lists = tasks.map((task) => readFile(`/proc/${server.pid}/task/${task}/children`, 'utf8').catch(() => ''))
  return (await Promise.all(lists)).join(' ').split(' ').filter(Boolean).map(Number)
}

type Footprint = {
  readonly descriptors: number
  readonly threads: number
  readonly heldBytes: number
  readonly residentKb: number
}

/** What it has open when it has come to rest: workers that were let go end after they have finished. */
async function footprint(server: ServerProcess): Promise<Footprint> {
  const look = async (): Promise<string> => {
    const status = await readFile(`/proc/${server.pid}/status`, 'utf8')
    const threads = /^Threads:\s+(\d+)/m.exec(status)?.[1]
    return `${(await readdir(`/proc/${server.pid}/fd`)).length} ${threads}`
  }
  let seen = await look()
  for (let same = 0, looks = 0; same < 10 && looks < 200; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    const now = await look()
    same = now === seen ? same + 1 : 0
    seen = now
  }
  const [descriptors, threads] = seen.split(' ').map(Number) as [number, number]
  const held = await heldBytes(server)
  const status = await readFile(`/proc/${server.pid}/status`, 'utf8')
  return { descriptors, threads, heldBytes: held, residentKb: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) }
}

/** On the heap and beside it, after what nobody holds was collected: see `heap-report.ts`. */
async function heldBytes(server: ServerProcess): Promise<number> {
  const reports = (): string[] =>
    [...server.output.matchAll(/held after collection: (\d+)/g)].map(([, bytes = '']) => bytes)
  const before = reports().length
  server.signal('SIGWINCH')
  await until(() => reports().length > before, 'a report of the heap')
  return Number(reports().at(-1))
}

const killedText =
  /failed: |its worker is being restarted|connection closed by its worker|ended while it held this request/

function assertBooks(entries: readonly Entry[], kills: number): void {
  let killed = 0
  for (const { id, wasAfterEnd, outcome } of entries) {
    assert.ok(outcome !== null, `request ${id} has an outcome`)
    if (wasAfterEnd && outcome.status !== 200) {
      assert.ok(outcome.status === 0 || outcome.status === 503, `request ${id} after the end: ${outcome.error}`)
      continue
    }
    if (outcome.status === 200) {
      assert.equal(outcome.id, id, 'an answer comes to who asked')
      assert.equal(outcome.answered, outcome.version, 'an answer comes whole from one version')
      continue
    }
    assert.match(outcome.error, killedText, `request ${id} failed with ${outcome.status}`)
    killed++
  }
  // A worker holds the request that kills it and those handed to it ahead of time.
  assert.ok(killed <= kills * 4, `${killed} requests fell with ${kills} workers`)
}

test('every request has one outcome through reloads, failing reloads, scale changes, worker kills and SIGTERM', async (context) => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-ledger-'))
  context.after(() => rm(root, { recursive: true, force: true }))
  const main = new ModelFolder(root, 'main', 'onnx', 1)
  const script = new ModelFolder(root, 'script', 'thread', 1)
  const apart = new ModelFolder(root, 'apart', 'process', 1)
  for (const model of [main, script, apart]) await model.writeVersion()
  const flags = ['--model-control-mode=explicit', '--load-model=*', '--default-max-queue-size=20000']
  await using server = await startServerProcess([`--model-repository=${root}`, ...flags], {
    nodeFlags: ['--expose-gc', `--import=${path.join(import.meta.dirname, 'heap-report.ts')}`],
    // Most of what this test takes is the start of workers.
    environment: { NODE_COMPILE_CACHE: path.join(root, '.compiled') },
  })
  const client = new LedgerClient(server.url, ['main', 'main', 'script', 'apart'])
  context.after(() => client.abandon())
  const startedMs = performance.now()
  client.start()
  const done = { reloads: 0, failing: 0, scales: 0, kills: 0 }
  const reload = async (model: ModelFolder): Promise<void> => {
    await loadAnew(server, model)
    done.reloads++
  }
  let base: Footprint | null = null

  for (let cycle = 0; cycle < cycles; cycle++) {
    await reload(main)
    await scale(server, main, 2 - (cycle % 2))
    done.scales++
    if (cycle % 2 === 0) {
      const remove = await main.writeBroken()
      const failed = await load(server, 'main')
      assert.equal(failed.status, 400, failed.text)
      assert.match(failed.text, /is at UNAVAILABLE state/)
      await remove()
      done.failing++
    }
    if (cycle % 10 === 9) {
      const [victim] = await workerProcesses(server)
      assert.ok(victim !== undefined, 'a worker is a process')
      process.kill(victim, 'SIGKILL')
      // A new set has its full number of workers, and no back-off.
      await reload(apart)
    } else {
      const fallen = await client.send('script', 666)
      assert.notEqual(fallen.status, 200)
      if (cycle % 10 === 2 || cycle % 10 === 5 || cycle % 10 === 8) await reload(script)
      else await reload(main)
    }
    done.kills++
    if (cycle === cycles / 4) {
      await client.stop()
      client.closeConnections()
      base = await footprint(server)
      client.start()
    }
  }
  await scale(server, main, 1)
  await client.stop()
  const rate = client.entries.length / ((performance.now() - startedMs) / 1000)
  client.closeConnections()
  assert.ok(base !== null)
  const end = await footprint(server)
  assert.ok(end.descriptors <= base.descriptors, `descriptors: ${base.descriptors}, at the end ${end.descriptors}`)
  assert.ok(end.threads <= base.threads, `threads: ${base.threads}, at the end ${end.threads}`)
  // What native code holds shows here alone, among pages that the allocator keeps.
  assert.ok(end.residentKb <= base.residentKb * 1.5, `memory: ${base.residentKb} KB, at the end ${end.residentKb}`)
  // Three quarters of the reloads lie between the two; what one of them takes would show 150 times over.
  assert.ok(
    end.heldBytes <= base.heldBytes + 150 * keptPerReload,
    `held: ${base.heldBytes}, at the end ${end.heldBytes}`,
  )

  client.start()
  await new Promise((resolve) => setTimeout(resolve, 200))
  server.signal('SIGTERM')
  client.serverEnds()
  const { code } = await server.exited
  await client.stop()
  assert.equal(code, 0)

  assert.deepEqual(done, { reloads: 200, failing: 50, scales: 100, kills: 100 })
  assert.equal(client.doubleCount, 0, 'no request has two outcomes')
  assertBooks(client.entries, done.kills)
  const failed = client.entries.filter(({ outcome, wasAfterEnd }) => !wasAfterEnd && outcome?.status !== 200)
  context.diagnostic(
    `${client.entries.length} requests, ${Math.round(rate)}/s; ${failed.length} fell with their worker`,
  )
  context.diagnostic(`at a quarter ${JSON.stringify(base)}, at the end ${JSON.stringify(end)}`)
})
