import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeCaller, type Caller } from '../../access/caller.ts'
import { NamePattern } from '../../access/name-pattern.ts'
import { Rights } from '../../access/rights.ts'
import { lastOf } from '../../base/run-in-slices.ts'
import { visibleMetrics } from './visible-metrics.ts'

const page = [
  '# HELP nv_inference_count Rows',
  '# TYPE nv_inference_count counter',
  'nv_inference_count{model="vision-a",version="1"} 1',
  'nv_inference_count{model="secret",version="1"} 2',
  '# HELP galatea_tenant_requests_total Inferences that ended',
  '# TYPE galatea_tenant_requests_total counter',
  'galatea_tenant_requests_total{model="vision-a",tenant="web"} 3',
  'galatea_tenant_requests_total{model="vision-a",tenant="rival"} 4',
  '# HELP galatea_tenant_refused_total Calls that a limit refused',
  '# TYPE galatea_tenant_refused_total counter',
  'galatea_tenant_refused_total{tenant="rival"} 5',
  '# HELP secret_words_total Words of a secret model',
  '# TYPE secret_words_total counter',
  'secret_words_total 6',
  '# HELP galatea_server_pressure Pressure',
  '# TYPE galatea_server_pressure gauge',
  'galatea_server_pressure 7',
  '# EOF',
  '',
]

const seenBy = (caller: Caller, lines: readonly string[] = page): string[] =>
  lastOf(visibleMetrics(Buffer.from(lines.join('\n')), caller))
    .toString()
    .split('\n')

const callerOf = (models: string | null): Caller => {
  const allow = [{ action: 'metrics' as const, models: models === null ? null : new NamePattern(models) }]
  return makeCaller('api-key', 'web-1', { tenant: 'web', rights: new Rights({ allow, deny: [] }) })
}

test('who may see the metrics of some models is told of no other model, of no other tenant, and of no metric that a model made', () => {
  assert.deepEqual(seenBy(callerOf('vision-*')), [...page.slice(0, 3), ...page.slice(4, 7), ...page.slice(14)])
})

test('who may see the metrics of the server sees all of them', () => {
  assert.deepEqual(seenBy(callerOf(null)), page)
  assert.deepEqual(seenBy(makeCaller('anonymous', '')), page)
})

test('of OpenMetrics, too, a family goes with its head, and the end stays whichever family is the last', () => {
  const seen = [
    '# TYPE nv_inference_count unknown',
    '# HELP nv_inference_count Rows',
    'nv_inference_count{model="vision-a",version="1"} 1',
  ]
  const uptime = [
    '# TYPE galatea_uptime_seconds gauge',
    '# UNIT galatea_uptime_seconds seconds',
    '# HELP galatea_uptime_seconds Uptime',
    'galatea_uptime_seconds 2',
  ]
  const hidden = ['# TYPE secret_words counter', '# HELP secret_words Words of a secret model', 'secret_words_total 6']
  const end = ['# EOF', '']
  for (const lines of [
    [seen, hidden, uptime],
    [hidden, seen, uptime],
    [seen, uptime, hidden],
  ]) {
    const shown = seenBy(callerOf('vision-*'), [...lines.flat(), ...end])
    assert.deepEqual(shown, [...seen, ...uptime, ...end])
  }
})
