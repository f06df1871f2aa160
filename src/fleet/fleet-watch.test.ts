import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { until } from '../../test/until.ts'
import type { AskMember } from './ask-member.ts'
import { parseDiscovery, parseUpstream } from './fleet-member.ts'
import { FleetWatch } from './fleet-watch.ts'
import { memberSource } from './member-source.ts'

const upstreams = (...ports: readonly number[]) => ports.map((port) => parseUpstream(`http://127.0.0.1:${port}`))

function watchOf(ports: readonly number[], mostMembers = 10) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const answers = new Map<number, () => Promise<boolean>>()
  let asked = 0
  const ask: AskMember = {
    readiness: async ({ httpPort }) => {
      asked++
      const isReady = (await answers.get(httpPort)?.()) ?? true
      return { isReady, reason: isReady ? '' : 'drains', models: 'x', pressure: 0.5, pressures: new Map() }
    },
    models: async ({ httpPort }) => new Map([[`m${httpPort}`, ['1']]]),
    isSequenceModel: async (_, name) => name === 'm2',
  }
  const members = memberSource(clock, { upstreams: upstreams(...ports), membersFile: '' })
  const watch = new FleetWatch({ clock, log, ask, members }, mostMembers, () => undefined)
  const round = async (): Promise<void> => {
    const goal = asked + ports.length
    clock.advanceNs(1e9)
    await until(() => asked >= goal, 'a round')
  }
  return { watch, answers, round, log }
}

test('a server that drains is out at once, a silent one after two questions, a refused connection at once', async () => {
  const { watch, answers, round } = watchOf([1, 2, 3])
  await watch.start()
  const healths = (): string[] => watch.states().map(({ health }) => health)
  assert.deepEqual(healths(), ['ready', 'ready', 'ready'])
  assert.deepEqual([...watch.sequenceModels()], ['m2'])
  answers.set(1, async () => false)
  answers.set(2, () => Promise.reject(new Error('timed out')))
  answers.set(3, () => Promise.reject(new Error('connect ECONNREFUSED')))
  await round()
  await until(() => healths().join() === 'not ready,ready,unreachable', 'the first round', { seen: healths })
  await round()
  await until(() => healths().join() === 'not ready,unreachable,unreachable', 'the second round', { seen: healths })
  answers.clear()
  await round()
  await until(() => healths().join() === 'ready,ready,ready', 'all again', { seen: healths })
  watch.close()
})

test('servers beyond --max-members are left out, and the log says so', async () => {
  const { watch, log } = watchOf([1, 2, 3], 2)
  await watch.start()
  watch.close()
  assert.equal(watch.states().length, 2)
  assert.match(JSON.stringify(log), /more servers than --max-members allows/)
})

test('servers come from a file that may change, and from every address of a name', async (context) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-members-'))
  context.after(() => rmSync(folder, { recursive: true }))
  const membersFile = path.join(folder, 'members')
  writeFileSync(membersFile, '# servers\nhttp://127.0.0.1:1\n\nhttp://[::1]:2?grpc=none # the last one\n')
  const clock = new ManualClock()
  let addresses = ['10.0.0.1', '10.0.0.2']
  const discovered = [parseDiscovery('dns:galatea:8000')]
  const members = memberSource(clock, { upstreams: discovered, membersFile }, async () => addresses)
  const keys = async (): Promise<string[]> => (await members()).map(({ key, grpcPort }) => `${key} ${grpcPort}`)
  assert.deepEqual(await keys(), ['10.0.0.1:8000 8001', '10.0.0.2:8000 8001', '127.0.0.1:1 2', '[::1]:2 null'])
  addresses = ['10.0.0.3']
  writeFileSync(membersFile, 'http://127.0.0.1:7')
  utimesSync(membersFile, 1, 1)
  clock.advanceNs(6e9)
  assert.deepEqual(await keys(), ['10.0.0.3:8000 8001', '127.0.0.1:7 8'])
  writeFileSync(membersFile, '#'.repeat(1024 * 1024 + 1))
  await assert.rejects(keys, /at most 1048576 are read/)
  assert.throws(() => parseUpstream('https://a:8000'), /expected http:\/\/HOST:PORT/)
  assert.throws(() => parseUpstream('http://a:8000?grpc=x'), /grpc must be a port or none/)
})
