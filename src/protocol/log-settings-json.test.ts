import assert from 'node:assert/strict'
import test from 'node:test'
import type { LogControl } from '../base/log-control.ts'
import { applyLogSettings, encodeLogSettings } from './log-settings-json.ts'

class FakeLog implements LogControl {
  settings: LogControl['settings'] = {
    file: '',
    isInfoOn: true,
    isWarningOn: true,
    isErrorOn: true,
    verboseLevel: 0,
    format: 'default',
  }
  configure(changes: Partial<LogControl['settings']>): void {
    this.settings = { ...this.settings, ...changes }
  }
}

function apply(body: string): FakeLog['settings'] {
  const log = new FakeLog()
  applyLogSettings(Buffer.from(body), log)
  return log.settings
}

test('each setting can be changed alone', () => {
  assert.equal(apply('{"log_info":false}').isInfoOn, false)
  assert.equal(apply('{"log_warning":false}').isWarningOn, false)
  assert.equal(apply('{"log_error":false}').isErrorOn, false)
  assert.equal(apply('{"log_verbose_level":7}').verboseLevel, 7)
  assert.equal(apply('{"log_verbose_level":2147483647}').verboseLevel, 2147483647)
  assert.equal(apply('{"log_verbose_level":2147483648}').verboseLevel, 0, 'an int32 holds the level')
  assert.equal(apply('{"log_format":"ISO8601"}').format, 'ISO8601')
  assert.equal(apply('{"log_format":"json"}').format, 'json')
})

test('nulls, unknown names and a body that is no object change nothing', () => {
  for (const body of ['{}', '[]', '{"log_info":null,"log_file":null,"log_format":null}', '{"nope":1}']) {
    assert.deepEqual(apply(body), new FakeLog().settings, body)
  }
})

test('refusals are Triton’s', () => {
  const refusals: [body: string, code: string, message: string][] = [
    ['{"log_file":"x"}', 'UNSUPPORTED', 'log file location can not be updated through network protocol'],
    ['{"log_info":"false"}', 'INTERNAL', 'attempt to access JSON non-boolean as boolean'],
    ['{"log_verbose_level":-1}', 'INTERNAL', 'attempt to access JSON non-unsigned-integer as unsigned-integer'],
    ['{"log_format":3}', 'INTERNAL', 'attempt to access JSON non-string as string'],
    ['{"log_format":"xml"}', 'UNAVAILABLE', 'invalid argument for --log_format, got: xml'],
    ['', 'INTERNAL', 'failed to parse the request JSON buffer: The document is empty. at 0'],
  ]
  for (const [body, code, message] of refusals) assert.throws(() => apply(body), { code, message })
})

test('what comes before a refused value stays applied', () => {
  const log = new FakeLog()
  assert.throws(() => applyLogSettings(Buffer.from('{"log_format":"xml","log_info":false}'), log))
  assert.equal(log.settings.isInfoOn, false)
})

test('settings are written in Triton’s order', () => {
  assert.equal(
    encodeLogSettings(new FakeLog()).toString(),
    '{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,"log_format":"default"}',
  )
})
