import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerLine, longestLineBytes, readLine, type LineCall } from './job-line.ts'

const read = (text: string): LineCall | string => readLine(Buffer.from(text), '/v2/models/m/infer', 'm')

test('a line is the body of an inference, or a line of an OpenAI batch', () => {
  const infer = read('{"id": "a", "inputs": []}')
  assert.deepEqual(infer, { id: 'a', target: '/v2/models/m/infer', body: Buffer.from('{"id": "a", "inputs": []}'), isOpenAi: false }) // prettier-ignore
  const chat = read('{"custom_id": "c1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}}')
  assert.deepEqual(chat, { id: 'c1', target: '/v1/chat/completions', body: Buffer.from('{"model":"m"}'), isOpenAi: true }) // prettier-ignore
  assert.match(
    readLine(Buffer.alloc(longestLineBytes + 1), '/v2/models/m/infer', 'm') as string,
    /has 67108865 bytes, at most 67108864/,
  )
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
