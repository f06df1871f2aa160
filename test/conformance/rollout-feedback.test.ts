// Feedback and faults over HTTP and gRPC, on a port with a live rollout behind it.

import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { AccessEntry } from '../../src/base/access-log.ts'
import { SystemClock } from '../../src/base/clock.ts'
import { createHttpPort } from '../../src/http-front-ends.ts'
import { openRolloutTools } from '../../src/open-rollout-tools.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import { FeedbackDesk } from '../../src/rollouts/feedback-desk.ts'
import { openLiveRollout } from '../../src/rollouts/live-rollout.ts'
import { readRolloutFile } from '../../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../../src/rollouts/rollout-plan.ts'
import { AuditLog } from '../../src/telemetry/audit-log.ts'
import { inject } from '../fakes/injected-request.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { until } from '../until.ts'
import { startHttpFixture } from './http-fixture.ts'

const clock = new SystemClock()
const http = await startHttpFixture()
const { engine } = http
after(() => http.close())
const audit = new AuditLog(clock)
const tools = await openRolloutTools({ clock, audit }, { ...defaultOptions().process, allowsFaultInjection: true })
const desk = new FeedbackDesk()
// Feedback and faults need no control.
const rollouts = { open: () => Promise.resolve({ control: null as never, desk }), faultDesk: tools.faultDesk }
const parts = { engine, log: new MemoryLog(), clock }
const port = createHttpPort({ ...parts, rollouts, faults: tools.faults }, { ...defaultOptions().http, port: 0 })
const plainPort = createHttpPort(
  { ...parts, rollouts: { ...rollouts, faultDesk: null } },
  { ...defaultOptions().http, port: 0 },
)

type Json = Record<string, unknown>

async function call(
  path: string,
  body: unknown = null,
  headers: readonly (readonly [string, string])[] = [],
  to = port,
) {
  const init =
    body === null ? { method: 'GET', path, headers } : { method: 'POST', path, headers, body: JSON.stringify(body) }
  const answer = await inject(to, init)
  return { ...answer, json: JSON.parse(answer.body.toString() || '{}') as Json }
}

const infer = (code: number, more: object = {}, headers: readonly (readonly [string, string])[] = []) =>
  call('/v2/models/versions_all/infer', { inputs: [{ name: 'CODE', shape: [1], datatype: 'INT32', data: [code] }], ...more }, headers) // prettier-ignore

function open(file: object, weight = 10_000) {
  const { plan, problems } = readRolloutFile({ kind: 'rollout', ...file }, () => null)
  assert.deepEqual(problems, [])
  const arms = ['stable', 'candidate'].map((name, i) => ({ name, model: 'versions_all', version: String(i + 1) }))
  const settings = { name: 'r1', model: 'versions_all', plan: plan as RolloutPlan, arms, known: {}, seed: 7 }
  const live = openLiveRollout({ engine, clock, desk, countryOf: tools.countryOf }, settings)
  live.setWeights([0, weight])
  return live
}

describe('feedback', () => {
  const path = '/v2/models/versions_all/feedback'
  const file = { feedback: { output: 'OUT', kind: 'exact' }, judge: { metrics: { accuracy: {}, 'score:click': {} } } }

  test('of an answer counts for its version, once, by the id in the header or the own one', async (t) => {
    const live = open(file)
    t.after(() => live.close())
    const { headers } = await infer(77)
    const id = headers['galatea-request-id'] ?? ''
    assert.match(id, /^[0-9a-f-]{36}$/)
    assert.equal((await infer(78, { id: 'mine' })).headers['galatea-request-id'], 'mine')
    assert.match((await infer(78, { id: 'a b\r\nx: y' })).headers['galatea-request-id'] ?? '', /^[0-9a-f-]{36}$/)
    const entries = [{ id, label: 77 }, { id: 'mine', label: 79 }, { id, label: 77 }, { id: 'nobody', correct: true }, { id, score: 0.5, name: 'click' }] // prettier-ignore
    const { status, json } = await call(path, { feedback: entries })
    const counts = { accepted: 3, forwarded: 0, unknown: 1, repeated: 1, no_prediction: 0, not_judged: 0 }
    assert.deepEqual([status, json], [200, { ...counts, unknown_ids: ['nobody'] }])
    assert.deepEqual(desk.counts().get('versions_all'), counts)
    live.evidence.tick(clock.nowNs() + 120e9, false)
    assert.match(JSON.stringify(live.evidence.sums()['accuracy']), /"events":1|:2/)
    live.close()
    const late = await call(path, { feedback: [{ id: 'mine', score: 1, name: 'other' }] })
    assert.equal(late.json['accepted'], 1)
  })

  test('that is wrong is refused with the reason, one without a rollout is told and counted', async () => {
    assert.match(
      String((await call(path, { feedback: [{ id: 'x' }] })).json['error']),
      /feedback\[0\] must have exactly/,
    )
    assert.equal((await call('/v2/models/nobody/feedback', { feedback: [] })).status, 404)
    const { status, json } = await call('/v2/models/fail/feedback', { feedback: [{ id: 'x', correct: true }] })
    assert.deepEqual([status, json['unknown'], json['unknown_ids']], [200, 1, ['x']])
  })

  test('is not asked for where no metric needs it', async (t) => {
    const live = open({})
    t.after(() => live.close())
    assert.equal((await infer(77)).headers['galatea-request-id'], undefined)
  })
})

describe('a fault', () => {
  test('needs the flag, a time and something to do', async () => {
    const refused = await call('/v2/faults', { delay_ms: 1, for: '1m' }, [], plainPort)
    assert.match(String(refused.json['error']), /--allow-fault-injection/)
    const wrong = [
      [{ delay_ms: 1 }, /needs 'for'/],
      [{ for: '1m' }, /needs 'delay_ms' or 'abort'/],
      [{ delay_ms: 1, for: '2h' }, /at most 1h/],
      [{ delay_ms: 300_001, for: '1m' }, /from 0 to 300000/],
      [{ abort: { code: 'BROKEN' }, for: '1m' }, /'abort.code' must be one of UNKNOWN/],
      [{ delay_ms: 1, for: '1m', modle: 'm' }, /did you mean 'model'/],
      [{ delay_ms: 1, for: '1m', arm: 'both' }, /one of stable, candidate, any/],
    ] as const
    for (const [body, expected] of wrong) {
      const { status, json } = await call('/v2/faults', body)
      assert.equal(status, 400)
      assert.match(String(json['error']), expected)
    }
    assert.deepEqual((await call('/v2/faults')).json, [])
  })

  test('hits those whom it names, says so, is listed, audited and cancelled', async () => {
    const when = { header: { 'x-test': 'yes' } }
    const abort = { code: 'UNAVAILABLE', message: 'as asked' }
    const { status, json } = await call('/v2/faults', { model: 'versions_all', when, abort, for: '1m' })
    assert.deepEqual([status, json['id'], json['share'], json['hits']], [201, 'fault-1', 100, 0])
    const hit = await infer(77, {}, [['X-Test', 'yes']])
    assert.deepEqual([hit.status, hit.headers['galatea-fault'], hit.json['error']], [503, 'abort', 'as asked'])
    const spared = await infer(77)
    assert.deepEqual([spared.status, spared.headers['galatea-fault']], [200, undefined])
    const [listed] = (await call('/v2/faults')).json as unknown as Json[]
    assert.deepEqual([listed?.['hits'], listed?.['model']], [1, 'versions_all'])
    assert.equal((await call('/v2/faults/fault-1/cancel', {})).status, 200)
    assert.equal((await call('/v2/faults/fault-1/cancel', {})).status, 404)
    assert.equal((await infer(77, {}, [['X-Test', 'yes']])).status, 200)
    assert.match(JSON.stringify(audit.history('versions_all', 10)), /rollout\.fault/)
  })

  test('is left out of the judgement, unless a rollback is rehearsed: then stable answers', async (t) => {
    const live = open({})
    t.after(() => live.close())
    await call('/v2/faults', { arm: 'candidate', abort: { code: 'INTERNAL' }, for: '1m' })
    const shown = await infer(77)
    assert.deepEqual([shown.status, live.arms[1]?.ended.error, live.arms[1]?.judged], [500, 0, 0])
    await call('/v2/faults/fault-2/cancel', {})
    await call('/v2/faults', { arm: 'candidate', abort: { code: 'INTERNAL' }, judge: true, for: '1m' })
    const hidden = await infer(77)
    assert.deepEqual(
      [hidden.status, hidden.headers['galatea-fault'], hidden.json['model_version']],
      [200, 'abort', '1'],
    )
    assert.deepEqual([live.arms[1]?.ended.hidden_error, live.arms[1]?.judged], [1, 1])
    await call('/v2/faults/fault-3/cancel', {})
  })

  test("comes with Envoy's headers too, and a client that goes away ends its delay", async () => {
    const aborted = await infer(77, {}, [['x-envoy-fault-abort-request', '503']])
    assert.deepEqual([aborted.status, aborted.headers['galatea-fault']], [503, 'abort'])
    const never = [['x-envoy-fault-abort-request', '503'], ['x-envoy-fault-abort-request-percentage', '0']] as const // prettier-ignore
    assert.equal((await infer(77, {}, never)).status, 200)
    const delayed = await infer(77, {}, [['x-envoy-fault-delay-request', '5']])
    assert.deepEqual([delayed.status, delayed.headers['galatea-fault']], [200, 'delay'])
    const body = JSON.stringify({ inputs: [{ name: 'CODE', shape: [1], datatype: 'INT32', data: [77] }] })
    const entries: AccessEntry[] = []
    const accessLog = { write: (entry: AccessEntry) => entries.push(entry), droppedCount: 0 }
    const logged = createHttpPort({ ...parts, faults: tools.faults, accessLog }, { ...defaultOptions().http, port: 0 })
    void inject(logged, {
      method: 'POST',
      path: '/v2/models/versions_all/infer',
      headers: [['x-envoy-fault-delay-request', '100000']],
      body,
      onStart: (request) => setImmediate(() => request.disconnect()),
    })
    const [entry] = await until(() => (entries.length > 0 ? entries : null), 'the request ends')
    assert.deepEqual([entry?.isAborted, entry?.inference?.computeStartNs], [true, 0])
  })
})
