import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as fc from 'fast-check'
import type { LogEntry } from '../base/log.ts'
import { encodeLogLine, type LineContext } from './log-line.ts'

const at = (changes: Partial<LineContext> = {}): LineContext => ({
  format: 'default',
  wallUs: Date.UTC(2026, 0, 2, 15, 4, 5, 678) * 1000 + 901,
  pid: 1234,
  isEscaped: true,
  ...changes,
})

const entry = (changes: Partial<LogEntry> = {}): LogEntry => ({
  level: 'info',
  message: 'message',
  fields: {},
  source: 'file.ts:99',
  ...changes,
})

describe("Triton's line", () => {
  test('is level, month and day, time to the microsecond, pid, place and the quoted message', () => {
    assert.equal(encodeLogLine(entry(), at()), 'I0102 15:04:05.678901 1234 file.ts:99] "message"\n')
  })

  test('has E, W and I; verbose lines are I too', () => {
    const letter = (level: LogEntry['level']): string => encodeLogLine(entry({ level }), at()).charAt(0)
    assert.deepEqual((['error', 'warning', 'info', 'verbose'] as const).map(letter), ['E', 'W', 'I', 'I'])
  })

  test('names a place that log readers can parse', () => {
    const place = (source: string): string => encodeLogLine(entry({ source }), at()).split(' ')[3] ?? ''
    assert.equal(place('http-frontend.ts'), 'http_frontend.ts:0]')
    assert.equal(place(''), 'galatea:0]')
  })

  test('escapes the message, so that no message can make a line of its own', () => {
    assert.match(encodeLogLine(entry({ message: 'a\n"b"\u0001' }), at()), /\] "a\\n\\"b\\"\\u0001"\n$/)
  })

  test('leaves the message alone with TRITON_SERVER_ESCAPE_LOG_MESSAGES=0', () => {
    assert.match(encodeLogLine(entry({ message: 'a "b"' }), at({ isEscaped: false })), /99\] a "b"\n$/)
  })

  test('carries fields after the message, inside its quotes, each quoted where it needs that', () => {
    const fields = { model: 'm', reason: 'no such file', ms: 12, ok: true, gone: undefined, none: null, big: 5n }
    const line = encodeLogLine(entry({ fields }), at())
    const message = JSON.parse(line.slice(line.indexOf('] ') + 2)) as string
    assert.equal(message, 'message model=m reason="no such file" ms=12 ok=true none=null big=5')
  })

  test('is one line whatever is logged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (message, value) => {
        const line = encodeLogLine(entry({ message, fields: { value } }), at())
        assert.equal(line.indexOf('\n'), line.length - 1)
      }),
    )
  })
})

test('the ISO8601 form has the time in whole seconds first', () => {
  assert.equal(
    encodeLogLine(entry({ level: 'warning' }), at({ format: 'ISO8601' })),
    '2026-01-02T15:04:05Z W 1234 file.ts:99] "message"\n',
  )
})

describe('a JSON line', () => {
  test('names the program where a line has no place of its own', () => {
    const line = JSON.parse(encodeLogLine(entry({ source: '' }), at({ format: 'json' }))) as { source: string }
    assert.equal(line.source, 'galatea')
  })

  test('is one object with the fields beside the message', () => {
    const line = encodeLogLine(entry({ fields: { model: 'm', big: 2n ** 60n, small: 7n } }), at({ format: 'json' }))
    assert.deepEqual(JSON.parse(line), {
      time: '2026-01-02T15:04:05.678Z',
      level: 'info',
      pid: 1234,
      source: 'file.ts:99',
      message: 'message',
      model: 'm',
      big: '1152921504606846976',
      small: 7,
    })
  })

  test('never lets a field replace the message, level or time', () => {
    const line: unknown = JSON.parse(
      encodeLogLine(entry({ fields: { message: 'x', level: 'y' } }), at({ format: 'json' })),
    )
    assert.partialDeepStrictEqual(line, { message: 'message', level: 'info', message_: 'x', level_: 'y' })
  })
})
