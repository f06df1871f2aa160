import assert from 'node:assert/strict'
import { test } from 'node:test'
import { progressText, startScreen, wrapped } from './start-screen.ts'
import { paintFor, plainPaint, Terminal } from './terminal.ts'
import type { TextSink } from './text-sink.ts'

const at = (port: number): { address: string; port: number } => ({ address: '127.0.0.1', port })
const ready = (name: string, version = '1') => ({ name, version, state: 'READY', reason: '' }) as const

test('the screen of a start stays within the width of the terminal, and says where the console is', () => {
  const models = [
    ...Array.from({ length: 200 }, (_, i) => ready(`model_${i}`)),
    { name: 'bad', version: '3', state: 'UNAVAILABLE', reason: `Internal: ${'a long story '.repeat(20)}` } as const,
  ]
  const addresses = { httpAddress: at(8000), grpcAddress: at(8001), metricsAddress: null, furtherAddresses: [] }
  const settings = { version: '1.2.3', hasConsole: true, columns: 60, paint: plainPaint }
  const lines = startScreen(addresses, models, settings).split('\n')
  assert.ok(lines.every((line) => line.length <= 60), lines.join('\n')) // prettier-ignore
  assert.ok(lines.length < 20, lines.join('\n'))
  assert.ok(lines.includes('  Console  http://127.0.0.1:8000/console'))
  assert.ok(lines.includes('  gRPC     127.0.0.1:8001'))
  assert.match(
    lines.join(' '),
    /model_0, model_1, .* and +\d+ more .*Failed +bad 3 does not serve: Internal: a long story/,
  )
  assert.ok(!startScreen(addresses, models, { ...settings, hasConsole: false }).includes('console'))
})

test('text is broken between words, and words that are longer than the width within', () => {
  assert.deepEqual(wrapped('one two three', 7, 9), ['one two', 'three'])
  assert.deepEqual(wrapped('abcdefgh i', 3, 9), ['abc', 'def', 'gh', 'i'])
  assert.deepEqual(wrapped('a, b, c, d', 6, 1), ['a, b,', 'and 2', 'more'])
})

test('progress counts the versions that are ready and names those that load', () => {
  assert.equal(progressText([]), 'Starting')
  const loading = { name: 'b', version: '1', state: 'LOADING', reason: '' } as const
  assert.equal(progressText([ready('a'), loading]), 'Loading models: 1 of 2 ready, now b')
})

test('lines push the status line down, and hostile names do not reach the terminal', () => {
  let text = ''
  const sink: TextSink = {
    write: (more) => (text += more),
    flush: () => Promise.resolve(),
    flushNow: () => undefined,
    close: () => Promise.resolve(),
  }
  const terminal = new Terminal(sink, plainPaint, () => 50)
  terminal.status = `loading \u001B[2J${'x'.repeat(100)}`
  assert.equal(text, `\r\u001B[Kloading \\x1b[2J${'x'.repeat(34)}`)
  text = ''
  terminal.writeEntry({ level: 'info', message: 'not while it starts', fields: {}, source: '' }, 0)
  assert.equal(text, '')
  terminal.writeEntry({ level: 'error', message: 'bad \u001B]0;x\u0007', fields: { model: 'm' }, source: '' }, 0)
  assert.match(text, /^\r.\[K\d\d:00:00 error bad \\x1b\]0;x\\x07 model=m\nloading /)
})

test('there are no colours where NO_COLOR is set or the terminal is dumb', () => {
  assert.equal(paintFor({})('red', 'x'), '\u001B[31mx\u001B[0m')
  for (const environment of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) assert.equal(paintFor(environment)('red', 'x'), 'x')
})
