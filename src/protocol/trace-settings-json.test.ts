import assert from 'node:assert/strict'
import test from 'node:test'
import type { TraceControl } from '../model/trace-control.ts'
import { encodeTraceSettings, readTraceChanges } from './trace-settings-json.ts'

const read = (body: string) => readTraceChanges(Buffer.from(body))

test('values are strings, null clears, and what is not named stays', () => {
  assert.deepEqual(read('{"trace_level":["TENSORS","TIMESTAMPS"],"trace_rate":"7"}'), {
    levels: ['TIMESTAMPS', 'TENSORS'],
    rate: 7,
  })
  assert.deepEqual(read('{"trace_level":null,"trace_rate":null,"trace_count":null,"log_frequency":null}'), {
    levels: null,
    rate: null,
    count: null,
    logFrequency: null,
  })
  assert.deepEqual(read('{"trace_level":["OFF"]}'), { levels: [] })
  for (const body of ['{}', '[]', '{"nope":"1"}', '{"trace_level":["MIN"]}', '{"trace_level":[]}']) {
    assert.deepEqual(read(body), {}, body)
  }
})

test('numbers are read as C++ reads them', () => {
  assert.deepEqual(read('{"trace_rate":"-1","trace_count":"5x","log_frequency":" 7.5"}'), {
    rate: 4294967295,
    count: 5,
    logFrequency: 7,
  })
})

test('refusals are Triton’s', () => {
  const refusals: [body: string, code: string, message: string][] = [
    ['{"trace_file":null}', 'UNSUPPORTED', 'trace file location can not be updated through network protocol'],
    ['{"trace_level":"OFF"}', 'INTERNAL', 'attempt to access JSON non-array as array'],
    ['{"trace_level":[1]}', 'INTERNAL', 'attempt to access JSON non-string as string'],
    ['{"trace_level":["OFF","OFF"]}', 'INVALID_ARG', "Expect only one trace level 'OFF' is specified"],
    ['{"trace_rate":7}', 'INTERNAL', 'attempt to access JSON non-string as string'],
    ['{"trace_rate":""}', 'INVALID_ARG', "Unable to parse 'trace_rate', got: "],
    ['{"trace_count":"-2"}', 'INVALID_ARG', "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"],
    [
      '{"log_frequency":"99999999999"}',
      'INVALID_ARG',
      "Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: 99999999999",
    ],
    [
      '{"trace_rate":"2147483648"}',
      'INVALID_ARG',
      "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 2147483648",
    ],
    [
      '{"trace_rate":"-2147483649"}',
      'INVALID_ARG',
      "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -2147483649",
    ],
    ['', 'INTERNAL', 'failed to parse the request JSON buffer: The document is empty. at 0'],
  ]
  for (const [body, code, message] of refusals) assert.throws(() => read(body), { code, message })
})

test('settings are written in Triton’s order, all values strings', () => {
  const control: TraceControl = {
    mode: 'triton',
    modeSettings: [],
    file: 'f',
    settings: () => ({ levels: [], rate: 1000, count: -1, logFrequency: 0 }),
    update: () => undefined,
  }
  assert.equal(
    encodeTraceSettings(control, '').toString(),
    '{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0","trace_file":"f","trace_mode":"triton"}',
  )
})
