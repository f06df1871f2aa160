// Rollouts with a real server: new versions take over by themselves, or go back by themselves, and no client sees an error.

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { clientOf, type Client } from './rollout-client.ts'
import {
  call,
  reached,
  RolloutRepository,
  rolloutsOf,
  type Behaviour,
  type ShownRollout,
} from './rollout-repository.ts'
import { startServerProcess, type ServerProcess, type StartOptions } from './server-process.ts'
import { PrometheusProcess } from './prometheus-process.ts'
import { runRollout } from '../../src/cli/rollout.ts'
import { bucketOf } from '../../src/rollouts/assignment.ts'
import { until } from '../until.ts'

const state = await mkdtemp(path.join(tmpdir(), 'galatea-state-'))
after(() => rm(state, { recursive: true, force: true }))
let folderCount = 0

/** Judged quickly: a test has seconds. */
const quickly = `
kind: rollout
steps:
  - { weight: 30, for: 1s, min_requests: 20 }
  - { weight: 100, for: 1s, min_requests: 20 }
judge: { metrics: { errors: {} } }
keep_stable: 1s
drain: 2s
`

type Setup = {
  readonly file?: string
  readonly candidate?: Behaviour
  readonly flags?: readonly string[]
  readonly options?: StartOptions
}

type Running = { readonly repository: RolloutRepository; readonly server: ServerProcess; readonly client: Client; readonly flags: readonly string[] } // prettier-ignore

/** A server with version 1 under load; the candidate is version 2. */
async function running(
  { file = quickly, candidate, flags: more = [], options = {} }: Setup,
  body: (running: Running) => Promise<void>,
): Promise<void> {
  const repository = await RolloutRepository.make()
  if (file !== '') await repository.write('rollout.yaml', file)
  await repository.addVersion(1, { number: 1 })
  const flags = [
    `--model-repository=${repository.root}`,
    `--state-dir=${path.join(state, String(++folderCount))}`,
    ...(more.some((flag) => flag.includes('control-mode')) ? [] : ['--model-control-mode=poll', '--repository-poll-secs=1']), // prettier-ignore
    ...more,
  ]
  const server = await startServerProcess(flags, options)
  const client = clientOf(server)
  try {
    if (candidate !== undefined) await repository.addVersion(2, candidate)
    await body({ repository, server, client, flags })
  } finally {
    await client.stop()
    await server.stop()
    await repository.remove()
  }
}

describe('a new version in the folder of a model with a rollout file', { concurrency: 3 }, () => {
  test('a good one gets more and more requests and becomes the default version', () =>
    running({ candidate: { number: 2 } }, async ({ server, client }) => {
      const done = await reached(server, 'SUCCEEDED')
      assert.equal(done.candidate, '2')
      assert.deepEqual(
        [...new Set(done.history.map((entry) => entry.state))],
        ['PENDING', 'RUNNING', 'PROMOTING', 'SUCCEEDED'],
      )
      const stable = `/v2/models/m/versions/1/ready`
      await until(async () => (await call(server, stable)).status !== 200, 'stable to be let go')
      await client.stop()
      assert.deepEqual(client.failures, [])
      assert.equal(client.answers.at(-1), 2)
    }))

  const bad: readonly (readonly [what: string, Behaviour, file: string, reason: RegExp])[] = [
    ['fails', { number: 2, body: "throw new Error('broken')" }, quickly, /errors is worse/],
    [
      'is slow',
      { number: 2, body: 'await new Promise((resolve) => setTimeout(resolve, 30))' },
      quickly.replace('errors: {}', 'latency_p50: {}').replace('judge: {', 'judge: { alpha: 0.2,'),
      /latency_p50 is worse/,
    ],
    ['crashes its worker', { number: 2, body: 'process.exit(3)' }, quickly, /restarted 3 times|errors is worse/],
  ]
  for (const [what, candidate, file, reason] of bad) {
    test(`one that ${what} goes back by itself, is held, and no client sees an error`, () =>
      running({ candidate, file: file.replace('for: 1s', 'for: 60s') }, async ({ server, client }) => {
        const back = await reached(server, 'ROLLED_BACK')
        assert.match(back.reason, reason)
        const again = await call<{ error: string }>(server, '/v2/rollouts', { model: 'm' })
        assert.equal(again.status, 409)
        assert.match(again.body.error, /version 2 of model 'm' is held since the rollout 'm-2'/)
        assert.equal((await call(server, '/v2/health/ready')).status, 200)
        await client.stop()
        assert.deepEqual(client.failures, [])
        assert.equal(client.answers.at(-1), 1)
      }))
  }

  const unfit: readonly (readonly [what: string, Behaviour, reason: RegExp])[] = [
    ['does not load', { number: 2, setup: "throw new Error('no weights')" }, /no weights/],
    ['has other outputs', { number: 2, output: 'INT16' }, /output 'Y' is INT16, stable has INT32/],
  ]
  for (const [what, candidate, reason] of unfit) {
    test(`one that ${what} changes nothing`, () =>
      running({ candidate }, async ({ server, client }) => {
        const failed = await reached(server, 'FAILED')
        assert.match(failed.reason, reason)
        await client.stop()
        assert.deepEqual([client.failures, client.answers.at(-1)], [[], 1])
      }))
  }

  test('waits while the file has a mistake, which the log names with its line and its fix', () =>
    running({ candidate: { number: 2 }, file: 'kind: rollout\nstepz: []\n' }, async ({ server, client }) => {
      await server.said("rollout.yaml:2:8: 'stepz' is not a key that is known; did you mean 'steps'?")
      await server.said('version 2 of model')
      assert.deepEqual(await rolloutsOf(server), [])
      await client.stop()
      assert.deepEqual([client.failures, client.answers.at(-1)], [[], 1])
    }))

  test('goes on where it was after the server was killed in mid-step', () =>
    running({ candidate: { number: 2 }, file: quickly.replace('for: 1s', 'for: 4s') }, async (first) => {
      const before = await reached(first.server, 'RUNNING')
      await first.client.stop()
      first.server.signal('SIGKILL')
      await first.server.exited
      const second = await startServerProcess(first.flags)
      const client = clientOf(second)
      const after = await reached(second, 'SUCCEEDED')
      await client.stop()
      await second.stop()
      assert.equal(after.name, before.name)
      assert.deepEqual([client.failures, client.answers.at(-1)], [[], 2])
      // The default version is kept: a third start does not ask for the highest version again.
      await first.repository.addVersion(3, { number: 3 })
      const third = await startServerProcess([...first.flags, '--model-control-mode=none'])
      const [rollout] = await rolloutsOf(third)
      await third.stop()
      assert.deepEqual([rollout?.candidate, rollout?.stable], ['3', '2'])
    }))
})

describe('a rollout that is posted', { concurrency: 3 }, () => {
  const body = { model: 'm', steps: [{ weight: 50, for: '60s' }], judge: { metrics: { errors: {} } } }
  const explicit = ['--model-control-mode=explicit', '--load-model=*']

  test('two that are posted at the same time have two names, and each is in the list', async (t) => {
    const models = ['車', '輪']
    const repositories = await Promise.all(models.map((model) => RolloutRepository.make('backend: "typescript"\nversion_policy: { all {} }\n', model))) // prettier-ignore
    t.after(() => Promise.all(repositories.map((repository) => repository.remove())))
    for (const repository of repositories) for (const number of [1, 2]) await repository.addVersion(number, { number })
    const folders = repositories.map(({ root }) => `--model-repository=${root}`)
    const flags = [`--state-dir=${path.join(state, 'two')}`, '--allow-grpc=false', '--allow-metrics=false']
    const server = await startServerProcess([...folders, ...flags])
    t.after(() => server.stop())
    await rolloutsOf(server)
    const post = (model: string, name: string) => call<ShownRollout>(server, '/v2/rollouts', { ...body, model, candidate: 1, name }) // prettier-ignore
    const same = await Promise.all(models.map((model) => post(model, 'same')))
    assert.deepEqual(
      same.map(({ status }) => status).sort((a, b) => a - b),
      [201, 409],
    )
    await call(server, '/v2/rollouts/same/rollback', {})
    const made = await Promise.all(models.map((model) => post(model, '')))
    const names = made.filter(({ status }) => status === 201).map(({ body: { name } }) => name)
    const listed = (await rolloutsOf(server)).map(({ name }) => name)
    assert.ok(names.length > 0 && new Set(names).size === names.length, JSON.stringify(made))
    assert.ok(names.every((name) => listed.includes(name)), JSON.stringify(listed)) // prettier-ignore
  })

  test('is steered by hand, and a second one of the model is refused', () =>
    running({ file: '', candidate: { number: 2 }, flags: explicit }, async ({ server, client }) => {
      const created = await call<ShownRollout>(server, '/v2/rollouts', { ...body, name: 'by-hand' })
      assert.equal(created.status, 201)
      await reached(server, 'RUNNING')
      const second = await call<{ error: string }>(server, '/v2/rollouts', body)
      assert.equal(second.status, 409)
      assert.match(second.body.error, /has the rollout 'by-hand', which is RUNNING/)
      const run = async (...args: readonly string[]): Promise<string> => {
        let text = ''
        const take = (piece: string): void => void (text += piece)
        await runRollout([...args, `--url=${server.url}`], { stdout: take, stderr: take })
        return text
      }
      assert.match(await run('list'), /by-hand +\| m +\| RUNNING/)
      assert.match(
        await run('show', 'by-hand'),
        /by-hand: RUNNING\n {2}model m, version 1 -> 2, step 1 of 1, weight 50 %/,
      )
      assert.match(await run('start', 'm'), /has the rollout 'by-hand'/)
      assert.match(await run('lst'), /did you mean 'list'/)
      assert.equal(await run('bucket', 'rollout-1', 'user-42'), `${bucketOf('rollout-1', 'user-42')}\n`)
      const labels = await call<object>(server, '/v2/models/m/labels', { champion: 1 })
      assert.deepEqual(labels.body, { champion: '1', stable: '1', candidate: '2' })
      const inputs = [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }]
      for (const [label, version] of Object.entries(labels.body)) {
        const answer = await call<{ model_version: string }>(server, `/v2/models/m/labels/${label}/infer`, { inputs })
        assert.equal(answer.body.model_version, version, label)
      }
      assert.equal((await call(server, '/v2/models/m/labels/other/infer', { inputs })).status, 404)
      assert.equal((await call(server, '/v2/models/m/labels', { stable: 2 })).status, 400)
      const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
      assert.match(page, /galatea_rollout_weight\{model="m",rollout="by-hand"\} 50\n/)
      assert.match(page, /galatea_rollout_state\{model="m",rollout="by-hand",state="RUNNING"\} 1\n/)
      assert.match(
        page,
        /galatea_variant_requests_total\{arm="candidate",model="m",outcome="success",version="2"\} [1-9]/,
      )
      const act = (action: string, fields: object = {}) =>
        call<ShownRollout>(server, `/v2/rollouts/by-hand/${action}`, fields)
      assert.equal((await act('pause', { reason: 'lunch' })).body.state, 'PAUSED')
      assert.equal((await act('pause')).status, 200)
      assert.equal((await act('approve')).status, 409)
      assert.equal((await act('resume')).body.state, 'RUNNING')
      assert.equal((await act('notes', { text: 'looks fine' })).status, 201)
      // Six bytes each where they are kept: more would make a record that other servers do not read.
      const long = { text: '\u0001'.repeat(4096) }
      for (let i = 0; i < 21; i++) assert.equal((await act('notes', long)).status, 201)
      const over = await act('notes', long)
      assert.deepEqual([over.status, JSON.stringify(over.body).includes('at most 524288 are kept')], [400, true])
      assert.equal((await act('rollback', { reason: 'not today' })).status, 200)
      const back = await reached(server, 'ROLLED_BACK')
      assert.equal(back.reason, 'not today')
      const markdown = await fetch(`${server.url}/v2/rollouts/by-hand/report`, { headers: { accept: 'text/markdown' } })
      assert.match(await markdown.text(), /^# Rollout by-hand: ROLLED_BACK/)
      const retried = await call<ShownRollout>(server, '/v2/rollouts', { ...body, retry: true })
      assert.equal(retried.status, 201)
      await reached(server, 'RUNNING')
      assert.equal((await call<ShownRollout>(server, `/v2/rollouts/${retried.body.name}/promote`, {})).status, 200)
      await reached(server, 'SUCCEEDED')
      await until(() => client.answers.at(-1) === 2, 'the candidate to answer')
      // Within keep_stable a promotion is taken back in one step.
      await call(server, `/v2/rollouts/${retried.body.name}/rollback`, {})
      await reached(server, 'ROLLED_BACK')
      await until(() => client.answers.at(-1) === 1, 'stable to answer')
      await client.stop()
      assert.deepEqual(client.failures, [])
    }))

  test('begins with a load of a model that has a rollout file, and the answer names it', () =>
    running({ candidate: { number: 2 }, flags: explicit }, async ({ server }) => {
      assert.deepEqual(await rolloutsOf(server), [])
      const answer = await fetch(`${server.url}/v2/repository/models/m/load`, { method: 'POST' })
      assert.deepEqual([answer.status, answer.headers.get('galatea-rollout')], [200, 'm-2'])
      assert.equal((await rolloutsOf(server))[0]?.state, 'RUNNING')
    }))

  test('goes back when a query of Prometheus says so', async () => {
    await using prometheus = await PrometheusProcess.start('127.0.0.1:9')
    const flags = [...explicit, `--prometheus-url=${prometheus.url}`]
    await running({ file: '', candidate: { number: 2 }, flags }, async ({ server }) => {
      const promql = { query: 'vector({{candidate}})', fail_if: '> 1', interval: '1s', failures: 2 }
      await call(server, '/v2/rollouts', { ...body, judge: { metrics: { promql } } })
      const back = await reached(server, 'ROLLED_BACK')
      assert.match(back.reason, /promql is worse/)
    })
  })

  test('says what is wrong with it', () => {
    // Callers that the server does not know may tell the addresses of this file alone.
    const hook = 'http://127.0.0.1:1/hook'
    const file = `kind: rollout\nsteps: [{ weight: 50, for: 60s }]\nnotify: [{ url: "${hook}" }]\n`
    return running({ file, flags: explicit }, async ({ server }) => {
      const wrong: readonly (readonly [body: object, status: number, text: RegExp])[] = [
        [{}, 400, /needs the key 'model'/],
        [{ model: 'other' }, 404, /there is no model 'other'/],
        [{ model: 'm' }, 400, /has version 1 alone/],
        [{ model: 'm', candidate: 7 }, 400, /has no version 7, it has 1/],
        [{ model: 'm', candidate: 1 }, 400, /is stable already/],
        [
          { model: 'm', steps: [{ weight: 50, for: '1m' }], notify: [{ url: hook, secret_env: 'HOME' }] },
          400,
          /variable 'HOME'.*only those that are listed: start it with --notify-secret-env=HOME/,
        ],
        [{ model: 'm', weight: 5 }, 400, /'weight' is not a key that is known/],
        [
          { model: 'm', judge: { metrics: { 'promql:x': { query: 'up', fail_if: '> 1' } } } },
          400,
          /--prometheus-url|not a/,
        ],
        [{ model: 'm', candidate: { model: 'other', version: 2 } }, 404, /there is no model 'other'/],
        [{ model: 'm', name: 'a b' }, 400, /'name' must have/],
        // Clients make another path of such a segment, and the command takes the other for a flag.
        [{ model: 'm', name: '..' }, 400, /begin with none of - and \./],
        [{ model: 'm', name: '-x' }, 400, /begin with none of - and \./],
      ]
      for (const [posted, status, text] of wrong) {
        const answer = await call<{ error: string }>(server, '/v2/rollouts', posted)
        assert.equal(answer.status, status, JSON.stringify(posted))
        assert.match(answer.body.error, text)
      }
      assert.equal((await call(server, '/v2/rollouts/none')).status, 404)
      const misspelt = await call<{ error: string }>(server, '/v2/rollouts/none/rollback', { resaon: 'slow' })
      assert.match(misspelt.body.error, /'resaon' is not a key that is known; known keys: reason, arm/)
      for (const query of ['colour=red', 'state=blue', 'page=0']) assert.equal((await call(server, `/v2/rollouts?${query}`)).status, 400) // prettier-ignore
    })
  })

  test('asks a webhook, tells another one with a signature, and leaves lines in the audit log', async () => {
    const heard: { readonly url: string; readonly signature: string; readonly body: string }[] = []
    const hooks = createServer((request, response) => {
      const pieces: Buffer[] = []
      request.on('data', (piece: Buffer) => pieces.push(piece))
      request.on('end', () => {
        const signature = String(request.headers['x-galatea-signature-256'] ?? '')
        heard.push({ url: request.url ?? '', signature, body: Buffer.concat(pieces).toString() })
        response.end(JSON.stringify({ verdict: 'pass', reason: 'the smoke tests passed' }))
      })
    })
    hooks.listen(0, '127.0.0.1')
    await once(hooks, 'listening')
    const base = `http://127.0.0.1:${(hooks.address() as AddressInfo).port}`
    const auditLog = path.join(state, 'audit.jsonl')
    const file = `
kind: rollout
steps: [{ webhook: { url: "${base}/ask", timeout: 5s } }, { weight: 50, for: 60s }]
judge: { metrics: { errors: {} } }
notify: [{ url: "${base}/tell", events: [started, rolled_back], secret_env: HOOK_SECRET }]
`
    const options = { environment: { HOOK_SECRET: 'sesame' } }
    await running(
      {
        file,
        candidate: { number: 2 },
        flags: [`--audit-log=${auditLog}`, '--notify-secret-env=HOOK_SECRET'],
        options,
      },
      async ({ server }) => {
        await until(async () => (await rolloutsOf(server))[0]?.step === 2, 'the webhook to pass')
        await call(server, '/v2/rollouts/m-2/rollback', { reason: 'enough' })
        await until(() => heard.some(({ body: text }) => text.includes('rolled_back')), 'the message')
      },
    )
    hooks.close()
    const told = heard.filter(({ url }) => url === '/tell')
    assert.deepEqual(told.map((one) => (JSON.parse(one.body) as { event: string }).event), ['started', 'rolled_back']) // prettier-ignore
    for (const { signature, body: text } of told) {
      assert.equal(signature, `sha256=${createHmac('sha256', 'sesame').update(text).digest('hex')}`)
    }
    const lines = (await readFile(auditLog, 'utf8')).split('\n').filter((line) => line.includes('"rollout.'))
    const actions = lines.map((line) => (JSON.parse(line) as { action: string }).action)
    assert.deepEqual(actions, ['rollout.create', 'rollout.start', 'rollout.step', 'rollout.rollback'])
    assert.match(lines[2] ?? '', /the smoke tests passed/)
  })
})
