// Experiments with a real server: users stay with their arm, scores come in as feedback, the report shows the better arm.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { runRollout } from '../../src/cli/rollout.ts'
import { bucketOf } from '../../src/rollouts/assignment.ts'
import { until } from '../until.ts'
import { call, RolloutRepository } from './rollout-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const state = await mkdtemp(path.join(tmpdir(), 'galatea-state-'))
after(() => rm(state, { recursive: true, force: true }))
let folderCount = 0

const arms = [{ name: 'old', version: 1, weight: 50 }, { name: 'new', version: 2, weight: 50 }] // prettier-ignore
const posted = { model: 'm', name: 'e1', kind: 'experiment', key: ['header:x-user'], arms, goals: ['score:click'] }

type Shown = {
  readonly name: string
  readonly kind: string
  readonly state: string
  readonly reason: string
  readonly winner: string | null
  readonly promoted: string | null
  readonly arms: readonly { readonly arm: string; readonly version: string; readonly ended: { readonly success: number } }[] // prettier-ignore
  readonly goals: readonly {
    readonly goal: string
    readonly arms: readonly {
      readonly arm: string
      readonly users: number
      readonly mean: number
      readonly difference: { readonly value: number; readonly low: number; readonly evidence: number } | null
    }[]
  }[]
}

type Setup = { readonly versions?: readonly number[]; readonly file?: string }

async function running(
  { versions = [1, 2], file = '' }: Setup,
  body: (server: ServerProcess, repository: RolloutRepository, restart: () => Promise<ServerProcess>) => Promise<void>,
): Promise<void> {
  const repository = await RolloutRepository.make()
  if (file !== '') await repository.write('rollout.yaml', file)
  for (const version of versions) await repository.addVersion(version, { number: version })
  const flags = [`--model-repository=${repository.root}`, `--state-dir=${path.join(state, String(++folderCount))}`, '--model-control-mode=poll', '--repository-poll-secs=1'] // prettier-ignore
  let server = await startServerProcess(flags)
  const restart = async (): Promise<ServerProcess> => {
    await server.stop()
    server = await startServerProcess(flags)
    return server
  }
  try {
    await body(server, repository, restart)
  } finally {
    await server.stop()
    await repository.remove()
  }
}

type Answer = { readonly version: number; readonly id: string; readonly variant: string }

async function ask(server: ServerProcess, user = ''): Promise<Answer> {
  const body = JSON.stringify({ inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }] })
  const headers = user === '' ? {} : { 'x-user': user }
  const answer = await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', body, headers })
  const { outputs } = (await answer.json()) as { outputs: [{ data: [number] }] }
  const { headers: got } = answer
  return { version: outputs[0].data[0], id: got.get('galatea-request-id') ?? '', variant: got.get('galatea-variant') ?? '' } // prettier-ignore
}

const users = Array.from({ length: 160 }, (_, i) => `user-${i}`)

async function versionsOf(server: ServerProcess): Promise<Map<string, Answer>> {
  const found = new Map<string, Answer>()
  for (const user of users) found.set(user, await ask(server, user))
  return found
}

async function reached(server: ServerProcess, name: string, wanted: string): Promise<Shown> {
  let last: Shown | undefined
  const look = async (): Promise<boolean> => {
    last = (await call<Shown>(server, `/v2/rollouts/${name}`)).body
    return last.state === wanted
  }
  await until(look, `an experiment that is ${wanted}`, { seen: () => JSON.stringify(last) })
  return last as Shown
}

describe('an experiment', { concurrency: 3 }, () => {
  test('keeps users with their arm over a restart, reports the better arm, and promotes it', () =>
    running({}, async (first, _, restart) => {
      assert.equal((await ask(first)).version, 2)
      const created = await call<Shown>(first, '/v2/rollouts', posted)
      assert.deepEqual([created.status, created.body.kind], [201, 'experiment'])
      await reached(first, 'e1', 'RUNNING')
      const again = await call<{ error: string }>(first, '/v2/rollouts', { ...posted, name: 'e2' })
      assert.deepEqual([again.status, /the experiment 'e1', which is RUNNING/.test(again.body.error)], [409, true])

      const before = await versionsOf(first)
      for (const [user, { version, variant }] of before) {
        assert.equal(version, bucketOf('e1', user) < 5000 ? 2 : 1, user)
        assert.equal(variant, version === 2 ? 'e1/new/2' : 'e1/old/1')
      }
      // Version 2 is liked by four of five users, version 1 by one of five.
      const feedback = [...before.values()].map(({ id, version }, i) => ({ id, name: 'click', score: (i % 5 < 4) === (version === 2) ? 1 : 0 })) // prettier-ignore
      const taken = await call<{ accepted: number }>(first, '/v2/models/m/feedback', { feedback })
      assert.equal(taken.body.accepted, users.length)

      const server = await restart()
      await reached(server, 'e1', 'RUNNING')
      const afterwards = await versionsOf(server)
      for (const [user, { version }] of before) assert.equal(afterwards.get(user)?.version, version, user)
      await until(async () => (await reached(server, 'e1', 'RUNNING')).winner === 'new', 'a winner')
      const report = (await call<Shown>(server, '/v2/rollouts/e1/report')).body
      const [old, better] = report.goals[0]?.arms ?? []
      const buckets = new Set(users.map((user) => bucketOf('e1', user)))
      assert.deepEqual([old?.difference, (old?.users ?? 0) + (better?.users ?? 0)], [null, buckets.size])
      assert.ok((better?.difference?.low ?? 0) > 0 && (better?.difference?.evidence ?? 0) > 1, JSON.stringify(report))

      let text = ''
      const io = { stdout: (line: string) => (text += line), stderr: (line: string) => (text += line) }
      for (const verb of ['list', 'show', 'report']) {
        await runRollout([verb, ...(verb === 'list' ? [] : ['e1']), '--url', server.url], io as never)
      }
      assert.match(text, /old = 1 \(50 %\), new = 2 \(50 %\)/)
      assert.match(text, /The arm new beats the first one for certain/)
      const metrics = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
      assert.match(metrics, /galatea_variant_requests_total\{[^}]*arm="new"[^}]*outcome="success"[^}]*\} [1-9]/)

      assert.equal((await call(server, '/v2/rollouts/e1/advance', {})).status, 409)
      assert.equal((await call(server, '/v2/rollouts/e1/promote', { arm: 'nobody' })).status, 400)
      const ended = await call<Shown>(server, '/v2/rollouts/e1/promote', {})
      assert.deepEqual([ended.status, ended.body.state, ended.body.promoted], [200, 'ENDED', 'new'])
      const last = await restart()
      assert.deepEqual((await versionsOf(last)).values().map(({ version }) => version).filter((version) => version !== 2).toArray(), []) // prettier-ignore
      assert.equal((await call<Shown>(last, '/v2/rollouts/e1/report')).body.goals[0]?.arms[1]?.users, better?.users)
    }))

  test('pauses on the first arm, and a rollback ends it there, though a higher version is in the folder', () =>
    running({}, async (server) => {
      await call(server, '/v2/rollouts', { ...posted, arms: [{ ...arms[0], weight: 0.01 }, { ...arms[1], weight: 99.99 }] }) // prettier-ignore
      await reached(server, 'e1', 'RUNNING')
      assert.equal((await ask(server)).version, 2)
      assert.equal((await call(server, '/v2/rollouts/e1/pause', {})).status, 200)
      assert.equal((await ask(server)).version, 1)
      assert.equal((await call(server, '/v2/rollouts/e1/resume', {})).status, 200)
      assert.equal((await ask(server)).version, 2)
      assert.equal((await call(server, '/v2/rollouts/e1/promote', {})).status, 409)
      assert.equal((await call(server, '/v2/rollouts/e1/rollback', {})).status, 200)
      // Some looks at the repository later.
      await new Promise((resolve) => setTimeout(resolve, 2500))
      assert.equal((await ask(server)).version, 1)
    }))

  test('in a file begins with a new version, ends by its time, and a version that is no arm waits', () => {
    const file = 'kind: experiment\narms: [{ name: a, version: 1, weight: 50 }, { name: b, version: 2, weight: 50 }]\ngoals: [score:x]\nuntil: 2s\n' // prettier-ignore
    return running({ versions: [1], file }, async (server, repository) => {
      await repository.addVersion(2, { number: 2 })
      await until(async () => (await call<Shown[]>(server, '/v2/rollouts')).body.length > 0, 'an experiment')
      const ended = await reached(server, 'm-2', 'ENDED')
      assert.equal(ended.reason, 'its time is over')
      assert.equal((await ask(server)).version, 1)
      await repository.addVersion(3, { number: 3 })
      await server.said('has no arm with this version')
      assert.equal((await ask(server)).version, 1)
    })
  })

  test('lets a newer version wait for its end, and the file compares that version then', () => {
    const file = 'kind: experiment\narms: [{ name: a, version: 1, weight: 50 }, { name: b, version: latest, weight: 50 }]\ngoals: [accuracy]\n' // prettier-ignore
    return running({ versions: [1], file }, async (server, repository) => {
      await repository.addVersion(2, { number: 2 })
      await until(async () => (await call<Shown[]>(server, '/v2/rollouts')).body.length > 0, 'an experiment')
      await reached(server, 'm-2', 'RUNNING')
      await repository.addVersion(3, { number: 3 })
      await server.said("waits for the end of the experiment 'm-2'")
      await call(server, '/v2/rollouts/m-2/rollback', {})
      await until(async () => (await call(server, '/v2/rollouts/m-3')).status === 200, 'the next experiment')
      const next = await reached(server, 'm-3', 'RUNNING')
      assert.deepEqual(next.arms.map(({ version }) => version), ['1', '3']) // prettier-ignore
    })
  })

  test('may have an arm of another model, whose version is in memory for as long as it lives', () =>
    running({ versions: [1] }, async (server, { root }) => {
      const others = new RolloutRepository(root, 'n')
      await mkdir(path.join(root, 'n'))
      await others.addVersion(7, { number: 7 })
      await others.addVersion(8, { number: 8 })
      await others.write('config.pbtxt', 'backend: "typescript"\n')
      const isReady = async (version: number): Promise<boolean> =>
        (await call(server, `/v2/models/n/versions/${version}/ready`)).status === 200
      await until(() => isReady(8), 'the other model')
      const other = { name: 'new', model: 'n', version: 7, weight: 50 }
      assert.equal((await call(server, '/v2/rollouts', { ...posted, arms: [arms[0], other] })).status, 201)
      await reached(server, 'e1', 'RUNNING')
      for (const [user, { version }] of await versionsOf(server)) {
        assert.equal(version, bucketOf('e1', user) < 5000 ? 7 : 1, user)
      }
      assert.equal((await call(server, '/v2/rollouts/e1/rollback', {})).status, 200)
      await until(async () => !(await isReady(7)), 'the version to be let go')
      assert.deepEqual([await isReady(8), (await ask(server)).version], [true, 1])

      // The other model may win: then requests go there, until an experiment brings a version of the model itself back.
      assert.equal((await call(server, '/v2/rollouts', { ...posted, name: 'won', arms: [arms[0], other] })).status, 201)
      await reached(server, 'won', 'RUNNING')
      assert.equal((await call(server, '/v2/rollouts/won/promote', { arm: 'new' })).status, 200)
      await until(async () => (await call<{ variant: string }>(server, '/v2/rollouts/won')).status === 200 && (await ask(server)).variant === '', 'the end of the experiment') // prettier-ignore
      assert.deepEqual([(await ask(server)).version, await isReady(7)], [7, true])
      const own = await call(server, '/v2/rollouts', { model: 'm', name: 'own', candidate: 1, judge: { metrics: { errors: {} } }, steps: [{ weight: 100, for: '1s', min_requests: 1 }] }) // prettier-ignore
      assert.equal(own.status, 201, JSON.stringify(own.body))
      const isBack = async (): Promise<boolean> => {
        const { version } = await ask(server)
        return version === 1 && (await call<Shown>(server, '/v2/rollouts/own')).body.state === 'SUCCEEDED'
      }
      await until(isBack, 'the model itself to serve again')

      // An arm that goes away bends the split, and then nothing can be compared any more.
      const latest = { name: 'new', model: 'n', weight: 50 }
      await call(server, '/v2/rollouts', { ...posted, name: 'e2', arms: [arms[0], latest] })
      await reached(server, 'e2', 'RUNNING')
      await rm(path.join(root, 'n'), { recursive: true })
      await until(async () => !(await isReady(8)), 'the other model to go')
      await Promise.all(Array.from({ length: 40 }, () => ask(server)))
      assert.match((await reached(server, 'e2', 'PAUSED')).reason, /requests went elsewhere/)
      assert.equal((await ask(server)).version, 1)
    }))

  test('with an arm that does not load or does not exist changes nothing', () =>
    running({ versions: [1] }, async (server, repository) => {
      const missing = await call<{ error: string }>(server, '/v2/rollouts', posted)
      assert.deepEqual([missing.status, missing.body.error], [400, "model 'm' has no version 2, it has 1"])
      const other = [arms[0], { name: 'b', model: 'n', weight: 50 }]
      assert.equal((await call(server, '/v2/rollouts', { ...posted, arms: other })).status, 404)
      assert.equal((await call(server, '/v2/rollouts', { ...posted, arms: other.toReversed() })).status, 400)
      await repository.write('rollout.yaml', 'kind: rollout\n')
      await repository.addVersion(2, { number: 2, setup: "throw new Error('no weights')" })
      await call(server, '/v2/rollouts', { ...posted, name: 'e3' })
      await until(async () => (await call<Shown[]>(server, '/v2/rollouts')).body[0]?.state === 'FAILED', 'a failure')
      assert.equal((await ask(server)).version, 1)
    }))
})
