import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { AlertDesk, type AlertAct } from './alert-desk.ts'
import { mostRules, readAlertPlan, type AlertPlan } from './alert-plan.ts'
import { holdingSeries, readMetricCondition, type MetricCondition } from './metric-condition.ts'

function planOf(text: string): AlertPlan {
  const plan = readAlertPlan(text, 'yaml')
  assert.ok('rules' in plan, JSON.stringify(plan))
  return plan
}

function deskUnderTest(text: string) {
  const clock = new ManualClock()
  const done: string[] = []
  const records: AlertAct[] = []
  const carryOut = ({ kind }: { kind: string }, model: string): Promise<string> => {
    done.push(`${kind} ${model}`)
    return kind === 'scale'
      ? Promise.reject(new Error('no room'))
      : Promise.resolve(kind === 'pause_jobs' ? '' : 'it was done')
  }
  const desk = new AlertDesk(
    { clock, log: new MemoryLog(), doer: { carryOut }, record: (act) => records.push(act) },
    planOf(text),
  )
  return { desk, clock, done, records }
}

const firing = (labels: Readonly<Record<string, string>>, status = 'firing') => ({
  version: '4',
  alerts: [{ status, labels }],
})

test('an alert acts for the model of its label, once in a cooldown for each model', async () => {
  const { desk, clock, done, records } = deskUnderTest(
    'rules: [{ alert: A, labels: { model: "vision-*" }, do: [rollback, pause_jobs, scale: +1], cooldown: 10m }]',
  )
  const outcomes = async (model: string): Promise<string[]> =>
    (await desk.receive(firing({ alertname: 'A', model }), 'who')).map(({ outcome }) => outcome)
  assert.deepEqual(await outcomes('vision-1'), ['done', 'nothing', 'failed'])
  assert.deepEqual(await outcomes('vision-1'), ['cooling', 'cooling', 'cooling'])
  assert.deepEqual(await outcomes('vision-2'), ['done', 'nothing', 'failed'])
  assert.deepEqual(await outcomes('text'), [])
  clock.advanceNs(600e9)
  assert.deepEqual(await outcomes('vision-1'), ['done', 'nothing', 'failed'])
  assert.equal(done.length, 9)
  assert.equal(records.length, 9, 'what cools down is not put on record')
  assert.match(records[2]?.why ?? '', /no room/)
})

test('alerts that are resolved, and a body of another form, make nothing happen', async () => {
  const { desk, done } = deskUnderTest('rules: [{ alert: A, do: [rollback] }]')
  assert.deepEqual(await desk.receive(firing({ alertname: 'A' }, 'resolved'), ''), [])
  for (const body of [{}, { alerts: 1 }, { alerts: [{}] }, { alerts: [null] }, { version: '3', alerts: [] }, null]) {
    await assert.rejects(desk.receive(body, ''), /the body must be that of Alertmanager's webhook/)
  }
  await assert.rejects(
    desk.receive({ alerts: Array.from({ length: 1001 }, () => ({ labels: {} })) }, ''),
    /at most 1000 are taken/,
  )
  await assert.rejects(desk.receive(firing({ alertname: 'A', model: 'x'.repeat(1025) }), ''), /at most 1024 are taken/)
  assert.deepEqual(done, [])
})

test('a condition acts when it has held for its time, and begins anew when it stops holding', async () => {
  const { desk, clock, done } = deskUnderTest(
    "rules: [{ when: 'galatea_pressure > 0.95', for: 30s, do: [unload_idle] }]",
  )
  const look = async (value: number): Promise<void> => {
    clock.advanceNs(10e9)
    await desk.look(`# TYPE\ngalatea_pressure{model="m",version="1"} ${value}\ngalatea_pressure_other{model="n"} 9\n`)
  }
  for (const value of [1, 1, 0.5, 1, 1, 1]) await look(value)
  assert.deepEqual(done, [])
  await look(1)
  assert.deepEqual(done, ['unload_idle m'])
  await look(1)
  assert.equal(done.length, 1, 'the cooldown is ten minutes')
})

test('a condition reads labels and divides series with equal labels', () => {
  const page =
    '\nused{gpu="0"} 95\nused{gpu="1"} 10\ntotal{gpu="0"} 100\ntotal{gpu="1"} 100\nempty 0\nname{model="a\\"b"} 2\n'
  const holding = (text: string): string[] =>
    holdingSeries(readMetricCondition(text) as MetricCondition, page).map(
      ({ labels, value }) => `${[...labels.values()].join()} ${value}`,
    )
  assert.deepEqual(holding('used / total >= 0.95'), ['0 0.95'])
  assert.deepEqual(holding('used{gpu="1"} < 20'), ['1 10'])
  assert.deepEqual(holding('used / empty > 0'), [])
  assert.deepEqual(holding('name{model="a\\"b"} > 1'), ['a"b 2'])
  for (const text of ['', 'a', 'a >', 'a > b', 'a == 1', 'a{ > 1', '1 > a'])
    assert.equal(readMetricCondition(text), null)
})

test('a file with mistakes is refused with all of them', () => {
  const messages = (text: string): string =>
    (readAlertPlan(text, 'yaml') as readonly { message: string }[]).map(({ message }) => message).join('\n')
  assert.match(messages('rules: [{ alert: A, when: "a > 1", do: [rollback] }]'), /either 'alert' or 'when'/)
  assert.match(messages('rules: [{ alert: A, do: [explode] }]'), /'rules.0.do.0'/)
  assert.match(messages('rules: [{ alert: A, do: [{ scale: 0 }], for: 3s }]'), /goes with 'when' alone/)
  assert.match(messages('rules: [{ alert: A, do: [notify] }]'), /must name an address/)
  assert.match(messages('rules: [{ when: "pressure high", do: [rollback] }]'), /a condition on a metric/)
  assert.match(messages(`rules: [${'{ alert: A, do: [rollback] },'.repeat(mostRules + 1)}]`), /at most 100/)
  assert.match(messages('rules: ['), /it is not YAML/)
})
