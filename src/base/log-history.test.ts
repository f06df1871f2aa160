import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LogHistory } from './log-history.ts'
import type { LogLevel } from './log.ts'

const all = { model: '', level: 'verbose', text: '' } as const

function add(history: LogHistory, message: string, level: LogLevel = 'info', model = ''): void {
  history.add({ level, message, fields: model === '' ? {} : { model }, source: 'x.ts' }, 0)
}

test('the history keeps the newest 5000 lines, and fewer when they are long', () => {
  const history = new LogHistory()
  for (let i = 0; i < 6000; i++) add(history, `line ${i}`)
  const kept = history.find(all, Infinity)
  assert.equal(kept.length, 5000)
  assert.equal(kept.at(-1)?.message, 'line 5999')
  for (let i = 0; i < 3000; i++) add(history, 'x'.repeat(100_000))
  const long = history.find(all, Infinity)
  assert.ok(long.length < 600, String(long.length))
  assert.ok(long.every(({ message }) => message.length <= 4097))
})

test('lines are found by level, model and text', () => {
  const history = new LogHistory()
  add(history, 'Started', 'info')
  add(history, 'slow', 'warning', 'digits')
  add(history, "failed to load 'digits'", 'error')
  assert.deepEqual(history.find({ ...all, level: 'warning' }, 9).map(({ message }) => message), ['slow', "failed to load 'digits'"]) // prettier-ignore
  assert.equal(history.find({ ...all, model: 'digits' }, 9).length, 2)
  assert.equal(history.find({ ...all, text: 'START' }, 9).length, 1)
  assert.equal(history.find(all, 1)[0]?.message, "failed to load 'digits'")
})

test('the lines of a model that failed outlive the others', () => {
  const history = new LogHistory()
  add(history, 'loading', 'info', 'broken')
  add(history, 'it broke', 'error', 'broken')
  for (let i = 0; i < 6000; i++) add(history, 'traffic')
  assert.deepEqual(history.find({ ...all, model: 'broken' }, 9).map(({ message }) => message), ['loading', 'it broke']) // prettier-ignore
})

test('a watcher sees new lines until it leaves', () => {
  const history = new LogHistory()
  const seen: string[] = []
  const leave = history.watch(({ message }) => seen.push(message))
  add(history, 'one')
  leave()
  add(history, 'two')
  assert.deepEqual(seen, ['one'])
})
