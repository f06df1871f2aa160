import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MeasuredPoint, TuneStep, TuneVerdict } from './find-setting.ts'
import type { Setting } from './setting.ts'
import { curveChart } from './tune-page.ts'
import { barsText } from './tune-text.ts'

const at = (
  step: TuneStep,
  setting: Setting,
  concurrency: number,
  inferPerSecond: number,
  latencyMs: number,
): MeasuredPoint => ({
  step,
  setting,
  concurrency,
  inferPerSecond,
  latencyMs,
  averageBatch: 1,
  memoryMib: null,
  failure: '', // prettier-ignore
})
const now = { maxBatchSize: 8, delayUs: 100, instances: 2 }
const plain = { maxBatchSize: 8, delayUs: null, instances: 1 }
const failing = { maxBatchSize: 16, delayUs: 0, instances: 1 }
const chosen = { maxBatchSize: 8, delayUs: 0, instances: 3 }
const best = at('instances', chosen, 8, 900, 9)
const confirmed = at('confirm', chosen, 8, 800, 10)
const points: MeasuredPoint[] = [
  at('as it is', now, 1, 300, 3),
  at('as it is', now, 2, 400, 5),
  at('baseline', plain, 1, 100, 10),
  at('batching', failing, 4, 500, 8),
  { ...at('batching', failing, 8, 0, 0), failure: '[500] no' },
  best,
  at('instances', chosen, 16, 910, 5000),
  confirmed,
  at('less load', chosen, 1, 200, 5),
  at('less load', chosen, 4, 1200, 5),
]
const verdict: TuneVerdict = { best, asItIs: points[1] as MeasuredPoint, confirmed, findings: [], isTimeUp: false }
const limits = { latencyMs: 20, memoryMib: Infinity }

test('the chart compares the best with what there was and with the baseline, and marks the knee on its curve', () => {
  const svg = curveChart(points, verdict, limits, 99)
  const names = [...svg.matchAll(/y="56">([^<]+)</g)].map((match) => match[1])
  assert.deepEqual(names, ['best', 'as it is', 'baseline', 'the knee', 'confirmed', 'limit'])
  assert.match(svg, /best: batches of up to 8, delay 0 us, 3 instances/)
  const [bestCurve = '', , , knee = ''] = [...svg.matchAll(/<polyline points="([^"]*)"/g)].map((match) => match[1])
  assert.equal(bestCurve.split(' ').at(-1), knee.split(' ').at(-1))
})

test('a point far beyond the limit does not flatten the others', () => {
  const scale = (svg: string): string[] =>
    [...svg.matchAll(/text-anchor="end">([^<]+)</g)].map((match) => match[1] ?? '')
  assert.ok(scale(curveChart(points, verdict, limits, 99)).every((label) => Number(label) <= 20))
})

test('the bars have every setting at its best, the knee marked, and what fails under load', () => {
  const lines = barsText(points, verdict, limits).trimEnd().split('\n')
  assert.equal(lines.length, 4)
  assert.match(lines[0] ?? '', /^batches of up to 8, delay 100 us, 2 instances {2}\u2588+ 400 infer\/s$/)
  assert.match(lines[2] ?? '', /500 infer\/s {2}fails with 8 at once$/)
  assert.match(lines[3] ?? '', /\u2588{30} 900 infer\/s {2}<- the knee$/)
})
