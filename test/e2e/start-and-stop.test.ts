// A start that fails at any step leaves nothing behind: no port, timer, thread or file. A drain closes everything in its order.

import assert from 'node:assert/strict'
import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { SystemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { createEngine } from '../../src/embedded-engine.ts'
import type { ServerOptions } from '../../src/options/server-options.ts'
import { startServer } from '../../src/server.ts'
import { optionsOf } from '../fixtures/options-of.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { until } from '../until.ts'

/** Answers as soon as there is a file `go`. */
const model = `
  import { existsSync, writeFileSync } from 'node:fs'
  import { fromBytes } from 'galatea/model'
  const file = (name) => new URL('../../../' + name, import.meta.url)
  export async function infer(request) {
    writeFileSync(file('begun'), '')
    await new Promise((resolve) => {
      const looks = setInterval(() => existsSync(file('go')) && resolve(clearInterval(looks)), 5)
    })
    return [fromBytes('OUT', 'INT32', [1], request.input('IN').bytes)]
  }`
const config = `backend: "typescript" max_batch_size: 0
  input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
  output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }`

let repository: Awaited<ReturnType<typeof temporaryRepository>>
let taken: net.Server
/** A port that somebody else has. */
let takenPort: number
let heldBefore: string

before(async () => {
  repository = await temporaryRepository({ 'models/echo/config.pbtxt': config, 'models/echo/1/model.js': model })
  taken = net.createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => taken.once('listening', resolve))
  takenPort = (taken.address() as AddressInfo).port
  heldBefore = heldResources().join(' ')
})

after(async () => {
  taken.close()
  await repository.remove()
})

/** A server with everything that can be open: ports, a worker thread, files, timers. */
const fullOptions = (...flags: string[]): ServerOptions =>
  optionsOf([
    `--model-repository=${path.join(repository.root, 'models')}`,
    '--http-port=0',
    '--grpc-port=0',
    '--metrics-port=0',
    `--audit-log=${path.join(repository.root, 'audit.jsonl')}`,
    '--model-control-mode=poll',
    '--repository-poll-secs=1',
    '--live-check=compute',
    '--allow-client-shared-memory=true',
    '--trace-config=mode=opentelemetry',
    '--trace-config=level=TIMESTAMPS',
    // Nobody listens there: the cache goes on trying to connect.
    '--cache-config=redis,host=127.0.0.1',
    '--cache-config=redis,port=1',
    ...flags,
  ])

const startWith = (options: ServerOptions): ReturnType<typeof startServer> =>
  startServer(options, { clock: new SystemClock(), log: silentLog })

const start = (...flags: string[]): ReturnType<typeof startServer> => startWith(fullOptions(...flags))

/** What keeps a process alive, and the files it has open. */
function heldResources(): string[] {
  const files = readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)].filter((file) => file.startsWith(repository.root))
    } catch {
      return []
    }
  })
  // Those of the file system come and go with every read.
  const others = process.getActiveResourcesInfo().filter((kind) => !/^FS|Immediate|TickObject/.test(kind))
  return [...others, ...files].sort()
}

async function leavesNothing(act: () => Promise<void>): Promise<void> {
  await act()
  const held = (): string => heldResources().join(' ')
  await until(() => held() === heldBefore, `nothing but '${heldBefore}'`, { seen: held })
}

describe('a start that fails', () => {
  const reasons: readonly [what: string, flag: () => string, reason: RegExp][] = [
    ['HTTP port is taken', () => `--http-port=${takenPort}`, /HTTP port \d+ on 127.0.0.1 is in use/],
    ['gRPC port is taken', () => `--grpc-port=${takenPort}`, /GRPC port \d+ on 127.0.0.1 is in use/],
    ['metrics port is taken', () => `--metrics-port=${takenPort}`, /metrics port \d+ on 127.0.0.1 is in use/],
    ['audit log cannot be opened', () => '--audit-log=/no/such/folder/audit', /no such file/],
    ['model repository is not there', () => '--model-repository=/no/such/models', /no\/such\/models/],
    ['repository has no such address', () => '--model-repository=s3://', /s3/],
  ]
  for (const [what, flag, reason] of reasons) {
    test(`leaves nothing behind when its ${what}`, async () => {
      await leavesNothing(() => assert.rejects(start(flag()), reason))
    })
  }

  test('leaves nothing behind when its certificate is not there', async () => {
    const files = ['--http-server-cert=/no/such/cert', '--http-server-key=/no/such/key']
    await leavesNothing(() => assert.rejects(start('--http-use-ssl=true', ...files), /no\/such/))
  })

  test('leaves nothing behind when an option makes no sense to a part of it', async () => {
    const { engine, trace, ...others } = fullOptions()
    const untraceable = { ...trace, openTelemetry: null, rate: 0 }
    await leavesNothing(() => assert.rejects(startWith({ ...others, engine, trace: untraceable }), /sample rate/))
    const nowhere = { ...engine, modelRepositories: null as unknown as readonly string[] }
    await leavesNothing(() => assert.rejects(startWith({ ...others, engine: nowhere, trace }), TypeError))
  })

  test('leaves nothing behind inside another process', async () => {
    await leavesNothing(() => assert.rejects(createEngine({ modelRepository: '/no/such/models' }), /no\/such/))
  })
})

test('a server that has started leaves nothing behind after its drain', async () => {
  await leavesNothing(async () => {
    const server = await start()
    assert.equal(server.engine.isReady, true)
    const held = heldResources()
    const ports = held.filter((kind) => kind === 'TCPServerWrap')
    assert.equal(ports.length, 4, 'three ports, and the one of this test')
    for (const kind of ['Timeout', 'MessagePort', path.join(repository.root, 'audit.jsonl')]) {
      assert.ok(held.includes(kind), `${kind} is not in ${held.join(' ')}`)
    }
    assert.equal(await server.drain(10_000), true)
  })
})

test('a drain refuses new requests first, answers those in flight, and shows metrics until the end', async () => {
  const server = await start()
  const [http, metrics] = [server.httpAddress, server.metricsAddress].map((at) => `http://127.0.0.1:${at?.port}`)
  const body = JSON.stringify({ inputs: [{ name: 'IN', shape: [1], datatype: 'INT32', data: [7] }] })
  const inFlight = fetch(`${http}/v2/models/echo/infer`, { method: 'POST', body })
  const page = async (): Promise<string> => (await fetch(`${metrics}/metrics`)).text()
  await until(() => existsSync(path.join(repository.root, 'begun')), 'the request in flight')
  const drained = server.drain(60_000)
  assert.equal(server.engine.isReady, false)
  assert.match(await page(), /galatea_ready 0/)
  await assert.rejects(fetch(`${http}/v2`), 'the HTTP port takes no new connection')
  await writeFile(path.join(repository.root, 'go'), '')
  assert.match(await (await inFlight).text(), /"data":\[7\]/)
  assert.equal(await drained, true)
  await assert.rejects(page(), 'the metrics port is closed')
})
