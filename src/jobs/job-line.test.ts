import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lastOf } from '../base/run-in-slices.ts'
import { answerLine, isBlankLine, longestLineBytes, readLine, type LineCall } from './job-line.ts'

const mostCallBytes = 8 * 1024 * 1024

/** To the end, without pauses. */
const readAtOnce = (line: Buffer): LineCall | string => lastOf(readLine(line, '/v2/models/m/infer', 'm', mostCallBytes))

const read = (text: string): LineCall | string => readAtOnce(Buffer.from(text))

test('a line is the body of an inference, or a line of an OpenAI batch', () => {
  const infer = read('{"id": "a", "inputs": []}')
  assert.deepEqual(infer, { id: 'a', target: '/v2/models/m/infer', body: Buffer.from('{"id": "a", "inputs": []}'), isOpenAi: false }) // prettier-ignore
  const chat = read('{"custom_id": "c1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}}')
  assert.deepEqual(chat, { id: 'c1', target: '/v1/chat/completions', body: Buffer.from('{"model":"m"}'), isOpenAi: true }) // prettier-ignore
  assert.match(readAtOnce(Buffer.alloc(longestLineBytes + 1)) as string, /has 67108865 bytes, at most 67108864/)
  const cases: [text: string, reason: RegExp][] = [
    ['{', /not JSON/],
    ['[]', /must be a JSON object/],
    ['{"id": 3}', /'id' must be text/],
    ['{"custom_id": "c", "url": "/v2/repository/models/m/unload", "body": {}}', /'url' must be one of \/v1\/chat/],
    ['{"url": "/v1/completions", "body": {}}', /'custom_id' must be text/],
    ['{"custom_id": "c", "url": "/v1/completions"}', /'body' must be an object/],
    ['{"custom_id": "c", "url": "/v1/completions", "body": {"stream": true}}', /'body.stream' must be false/],
    // The author of the job was asked for a right to its model only.
    [
      '{"custom_id": "c", "url": "/v1/completions", "body": {"model": "secret"}}',
      /'body.model' must be 'm', the model of the job/,
    ],
    ['{"custom_id": "c", "url": "/v1/completions", "body": {}}', /'body.model' must be 'm'/],
  ]
  for (const [text, reason] of cases) {
    const problem = read(text)
    assert.ok(typeof problem === 'string', text)
    assert.match(problem, reason)
  }
})

test('an answer keeps the id of its line, and errors are lines too', () => {
  const call = read('{"id": "a"}') as LineCall
  const good = { status: 200, body: Buffer.from('{"id": "other", "outputs": [1]}') }
  assert.equal(answerLine(call, 'f:1', good), '{"id":"a","outputs":[1]}\n')
  assert.equal(answerLine({ ...call, id: '' }, 'f:1', good), '{"id":"f:1","outputs":[1]}\n')
  const bad = { status: 400, body: Buffer.from('{"error": "no"}') }
  assert.equal(answerLine(null, 'f:2', bad), '{"id":"f:2","error":"no","status":400}\n')
  const chat = { ...call, id: 'c', isOpenAi: true }
  const refused = { status: 404, body: Buffer.from('{"error": {"message": "gone"}}') }
  assert.deepEqual(JSON.parse(answerLine(chat, 'f:3', refused)), { id: 'f:3', custom_id: 'c', response: null, error: { code: '404', message: 'gone' } }) // prettier-ignore
  assert.deepEqual(JSON.parse(answerLine(chat, 'f:3', good)), { id: 'f:3', custom_id: 'c', response: { status_code: 200, request_id: 'f:3', body: { id: 'other', outputs: [1] } }, error: null }) // prettier-ignore
})

test('a long line is looked at a piece at a time, and means the same as a short one', () => {
  const long = `"data":[${'[1],'.repeat(100_000)}[1]]`
  const escaped = `"x":"${'\\"'.repeat(200_000)}"`
  const ids: [text: string, id: string][] = [
    [`{"id":"a",${long}}`, 'a'],
    [` {${long},"\\u0069d" : "b\\n"}`, 'b\n'],
    [`{${escaped},"id":"one","id":"two"}`, 'two'],
    [`{"inner":{"id":"deep","url":1},${long}}`, ''],
  ]
  for (const [text, id] of ids) {
    const line = Buffer.from(text)
    assert.deepEqual(read(text), { id, target: '/v2/models/m/infer', body: line, isOpenAi: false }, text.slice(0, 40))
  }
  const call = `{"custom_id":"c","url":"/v1/completions","body":{"model":"m","prompt":"${'x'.repeat(300_000)}"}}`
  assert.equal((read(call) as LineCall).target, '/v1/completions')
  const refused: [text: string, reason: RegExp][] = [
    [`[${long}]`, /must be a JSON object/],
    [`x${long}`, /must be a JSON object/],
    [' '.repeat(300_000), /must be a JSON object/],
    [`{"id":7,${long}}`, /'id' must be text/],
    [`{"id":"${'x'.repeat(300_000)}"}`, /'id' has more than 65536 bytes/],
    [`{"a":${'['.repeat(300_000)}`, /deeper than 256 levels/],
    [`{"a":[${'[],'.repeat(1_000_000)}]}`, /more than 1000000 lists and objects/],
    [call.replace('"m"', '"secret"'), /'body.model' must be 'm'/],
    [call.replace('xxx', 'x'.repeat(9_000_000)), /at most 8388608 are taken of a call/],
  ]
  for (const [text, reason] of refused) assert.match(read(text) as string, reason)
  let steps = 0
  for (const _ of readLine(Buffer.from(`{${escaped},${long}}`), '', '', mostCallBytes)) steps++
  assert.ok(steps > 5, `${steps} pauses`)
})

test('a long answer is not parsed, and its line begins with its id', () => {
  const outputs = `"outputs":[${'1,'.repeat(200_000)}NaN]}`
  const call: LineCall = { id: 'a', target: '', body: Buffer.alloc(0), isOpenAi: false }
  const answer = (text: string) => ({ status: 200, body: Buffer.from(text), isJson: true })
  assert.equal(answerLine(call, 'f:1', answer(`{"id":"a",${outputs}`)), `{"id":"a",${outputs}\n`)
  assert.equal(answerLine({ ...call, id: '' }, 'f:1', answer(`{${outputs}`)), `{"id":"f:1",${outputs}\n`)
  assert.match(answerLine(call, 'f:1', { ...answer(`{"id":"a",${outputs}`), isJson: false }), /not JSON/)
})

test('an empty line is none, and a line of blanks without end is one', () => {
  assert.ok(isBlankLine(Buffer.from(' \t\r')))
  assert.ok(!isBlankLine(Buffer.from(' {')))
  assert.ok(!isBlankLine(Buffer.alloc(5000, ' ')))
})
