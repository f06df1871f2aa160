import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../../test/until.ts'
import { isStartedByNpm, watchNpm, withoutEchoes } from './exit-signals.ts'

test('the same signal within a moment is the echo of the first, later or another one is a second wish', () => {
  const counted: string[] = []
  let nowMs = 1000
  const listen = withoutEchoes(
    (signal) => counted.push(`${signal} ${nowMs}`),
    () => nowMs,
  )
  const send = (signal: string, atMs: number): void => {
    nowMs = atMs
    listen(signal)
  }
  send('SIGINT', 1000)
  send('SIGINT', 1001)
  send('SIGINT', 1200)
  send('SIGTERM', 1201)
  assert.deepEqual(counted, ['SIGINT 1000', 'SIGINT 1200', 'SIGTERM 1201'])
})

test('only what npm started watches npm', () => {
  assert.equal(isStartedByNpm({ npm_lifecycle_event: 'npx' }), true)
  assert.equal(isStartedByNpm({ npm_command: 'exec' }), true)
  assert.equal(isStartedByNpm({ PATH: '/bin' }), false)
})

test('the end of an ancestor is told once', async () => {
  let ancestors = '30 20 10'
  let told = 0
  watchNpm(
    () => told++,
    () => ancestors,
  )
  ancestors = '1'
  await until(() => told > 0, 'the end of an ancestor')
  ancestors = '7'
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(told, 1)
})
