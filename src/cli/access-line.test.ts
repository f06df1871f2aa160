import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { AccessEntry } from '../base/access-log.ts'
import { encodeAccessLine } from './access-line.ts'

const entry: AccessEntry = {
  protocol: 'http',
  method: 'POST',
  path: '/v2/models/m/infer',
  status: 200,
  client: '127.0.0.1',
  caller: '',
  tenant: '',
  bytesIn: 10,
  bytesOut: 20,
  totalNs: 1_234_567,
  isAborted: false,
  traceparent: '',
  modelVersion: '3',
  inference: {
    modelName: 'm',
    id: 'mine',
    traceId: '',
    batchSize: 2,
    responseCount: 1,
    queueStartNs: 1_000_000,
    computeStartNs: 1_500_000,
    computeEndNs: 2_500_000,
    watch: null,
  },
}

test('a line tells what was asked for, what came of it and how long each part took', () => {
  assert.equal(
    encodeAccessLine(entry, 1_700_000_000_000),
    '{"time":"2023-11-14T22:13:20.000Z","protocol":"http","method":"POST","path":"/v2/models/m/infer","status":200,' +
      '"client":"127.0.0.1","bytes_in":10,"bytes_out":20,"total_us":1235,"model":"m","version":"3","request_id":"mine",' +
      '"queue_us":500,"compute_us":1000,"batch_size":2,"responses":1}\n',
  )
  assert.equal(
    encodeAccessLine({ ...entry, inference: null, isAborted: true }, 1_700_000_000_000),
    '{"time":"2023-11-14T22:13:20.000Z","protocol":"http","method":"POST","path":"/v2/models/m/infer","status":200,' +
      '"client":"127.0.0.1","bytes_in":10,"bytes_out":20,"total_us":1235,"aborted":true}\n',
  )
})

test('a line names the variant of a rollout that answered', () => {
  const inference = { ...(entry.inference as NonNullable<AccessEntry['inference']>), watch: { variant: 'r/stable/3' } }
  assert.match(encodeAccessLine({ ...entry, inference }, 0), /"version":"3","variant":"r\/stable\/3","request_id"/)
})

test('the trace is that of the request, else the one its client names', () => {
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00`
  assert.match(encodeAccessLine({ ...entry, traceparent }, 0), /"trace_id":"a{32}"/)
  assert.match(encodeAccessLine({ ...entry, traceparent, inference: null }, 0), /"trace_id":"a{32}"/)
})

test('whatever clients send stays one line of valid JSON and bounded', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
      const inference = { ...(entry.inference as NonNullable<AccessEntry['inference']>), id: text, modelName: text }
      const line = encodeAccessLine(
        { ...entry, path: text, method: text, client: text, traceparent: text, modelVersion: text, inference },
        0,
      )
      assert.equal(line.indexOf('\n'), line.length - 1)
      assert.ok(line.length < 12_000)
      JSON.parse(line)
    }),
  )
})
