import assert from 'node:assert/strict'
import test from 'node:test'
import { barChart, lineChart } from './svg-chart.ts'

const line = lineChart({
  title: 'a < b',
  x: { label: 'clients' },
  y: { label: 'ms' },
  series: [
    { name: 'one', points: [[0, 0], [10, 100]] }, // prettier-ignore
    { name: 'limit', points: [[0, 50], [10, 50]], isDashed: true }, // prettier-ignore
  ],
})

test('a line runs from the bottom left to the top right of its plot, and text is escaped', () => {
  assert.match(line, /<polyline points="72,324 700,76"/)
  assert.match(line, /a &lt; b/)
  assert.match(line, /stroke-dasharray/)
})

test('the same numbers give the same text, and every tag is closed', () => {
  const opened = [...line.matchAll(/<([a-z]+)[ >]/g)].length
  const closed = [...line.matchAll(/\/>|<\/[a-z]+>/g)].length
  assert.equal(opened, closed)
  assert.ok(line.startsWith('<svg ') && line.endsWith('</svg>\n'))
})

test('bars are as high as their values, and a logarithmic axis has a tick per power of ten', () => {
  const bars = barChart({
    title: 't',
    y: { label: 'n' },
    categories: ['x'],
    series: [
      { name: 'a', values: [50] },
      { name: 'b', values: [100] },
    ],
  })
  const heights = [...bars.matchAll(/<rect [^>]*height="([\d.]+)" fill/g)].map((match) => Number(match[1]))
  assert.equal((heights[0] ?? 0) * 2, heights[1])
  const log = lineChart({
    title: 't',
    x: { label: 'x' },
    y: { label: 'y', isLogarithmic: true },
    series: [{ name: 'a', points: [[1, 1], [2, 1000]] }], // prettier-ignore
  })
  assert.deepEqual([...log.matchAll(/text-anchor="end">(\d+k?)</g)].map((match) => match[1]), ['1', '10', '100', '1000']) // prettier-ignore
})
