import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Evidence } from './judge/evidence.ts'
import { judgeRollout } from './judge/judge-rollout.ts'
import { reduceRollout } from './reduce-rollout.ts'
import { readRolloutFile } from './rollout-file.ts'
import type { RolloutPlan } from './rollout-plan.ts'
import { reportMarkdown, reportRollout } from './rollout-report.ts'
import { createRollout } from './rollout-state.ts'
import { ShadowRecord } from './shadow-record.ts'

const plan = readRolloutFile({ kind: 'rollout', judge: { metrics: { errors: {}, memory: { dry_run: true }, 'score:a|b': {} } } }, () => null).plan as RolloutPlan // prettier-ignore

function report(why: string): ReturnType<typeof reportRollout> {
  const { metrics, alpha } = plan.judge
  const evidence = new Evidence(metrics, {}, () => 0.5, 0)
  for (let i = 0; i < 100; i++) {
    const values = { bucket: i, latencyMs: 1, firstResponseMs: NaN, computeSecondsPerRow: NaN, tokensPerSecond: NaN }
    evidence.addRequest('candidate', { ...values, isError: i % 4 === 0 })
    evidence.addRequest('stable', { ...values, isError: false })
    evidence.tick((i + 1) * 1e9, true)
  }
  evidence.setMemory(3, 1)
  const judgement = judgeRollout(metrics, evidence.sums(), alpha)
  const created = createRollout({ name: 'r<1>', model: 'm', author: 'ann', why }, { nowNs: 0, wallMs: 0 })
  const { state } = reduceRollout(plan, created.state, { type: 'candidate-ready' }, { nowNs: 1e9, wallMs: 1000 })
  return reportRollout({
    plan,
    state,
    judgement,
    shadow: new ShadowRecord().figures(),
    versions: { candidate: '2', stable: '1' },
    notes: ['the cache was cold'],
  })
}

test('a report has the arms, the verdicts and the history, and survives JSON', () => {
  const { metrics, history, ...rest } = report('version 2 appeared')
  assert.partialDeepStrictEqual(rest, { state: 'RUNNING', step: 1, steps: 5, weight: 1, candidate: '2', stable: '1' })
  assert.deepEqual(metrics.map(({ metric, verdict, dry_run: isDryRun }) => [metric, verdict, isDryRun]), [['errors', 'worse', false], ['memory', 'worse', true], ['score:a|b', 'unsure', false]]) // prettier-ignore
  assert.partialDeepStrictEqual(metrics[0]?.candidate, { value: 0.25, count: 100 })
  assert.ok((metrics[0]?.evidence ?? 0) > (metrics[0]?.needed ?? 9))
  assert.deepEqual(metrics[2]?.candidate, { value: 0, low: null, high: null, count: 0 })
  assert.deepEqual(history.map(({ at, state }) => [at, state]), [['1970-01-01T00:00:00.000Z', 'PENDING'], ['1970-01-01T00:00:01.000Z', 'RUNNING']]) // prettier-ignore
  assert.deepEqual(JSON.parse(JSON.stringify(metrics)), metrics)
})

test('the page for people keeps its tables, whatever names and reasons say', () => {
  const page = reportMarkdown(report('a | b\n# c <img onerror=x>'))
  assert.match(page, /^# Rollout r\\<1\\>: RUNNING$/m)
  assert.match(page, /^\| errors \| worse \| 0\.25 \(0\.\d+ to 0\.\d+\), 100 values \| 0 /m)
  assert.match(page, /^\| memory \| worse \(dry run\) \|/m)
  assert.match(page, /\| a \\\| b \\# c \\<img onerror=x\\> \|$/m)
  assert.match(page, /^- the cache was cold$/m)
})
