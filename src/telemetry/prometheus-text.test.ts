import assert from 'node:assert/strict'
import test from 'node:test'
import { histogramLines, labelText, sampleLine } from './metrics-text.ts'
import { prometheusText } from './prometheus-text.ts'

test('labels are sorted by name and their values escaped', () => {
  assert.equal(
    labelText([
      ['version', '1'],
      ['_team', 'a"b\\c\nd'],
      ['model', 'm'],
    ]),
    '_team="a\\"b\\\\c\\nd",model="m",version="1"',
  )
})

test('a help text stays on its line', () => {
  assert.equal(prometheusText.familyHead('x', 'a\\b\nc', 'gauge'), '# HELP x a\\\\b\\nc\n# TYPE x gauge\n')
})

test('numbers that are none are spelt as prometheus-cpp spells them', () => {
  assert.equal(sampleLine(prometheusText, 'x', '', NaN), 'x Nan\n')
  assert.equal(sampleLine(prometheusText, 'x', 'a="1"', Infinity), 'x{a="1"} +Inf\n')
  assert.equal(sampleLine(prometheusText, 'x', '', 2n ** 64n), 'x 18446744073709551616\n')
})

test('the buckets of a histogram are cumulative and end with +Inf', () => {
  assert.equal(
    histogramLines(prometheusText, 'x', 'm="1"', { bounds: [1, 2], counts: [3, 4, 5], sum: 6.5 }),
    'x_count{m="1"} 12\nx_sum{m="1"} 6.5\nx_bucket{m="1",le="1"} 3\nx_bucket{m="1",le="2"} 7\nx_bucket{m="1",le="+Inf"} 12\n',
  )
})
