import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { createSpanId, createTraceId, encodeTraceparent, parseTraceOrigin } from './trace-context.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const spanId = 'b7ad6b7169203331'
const parse = (traceparent: string, tracestate = ''): ReturnType<typeof parseTraceOrigin> =>
  parseTraceOrigin({ traceparent, tracestate })

test('a context is read as W3C writes it', () => {
  assert.deepEqual(parse(`00-${traceId}-${spanId}-01`, 'a=1,b=2'), {
    traceId,
    spanId,
    isSampled: true,
    traceState: 'a=1,b=2',
  })
  assert.equal(parse(`00-${traceId}-${spanId}-00`)?.isSampled, false)
  assert.equal(parse(`01-${traceId}-${spanId}-01-what-is-to-come`)?.traceId, traceId)
})

test('what is not valid is no context, and a state that is too long or not text is dropped', () => {
  const wrong = [
    '',
    'nonsense',
    `ff-${traceId}-${spanId}-01`,
    `00-${'0'.repeat(32)}-${spanId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    `00-${traceId}-${spanId}-01-more`,
    `00-${traceId}-${spanId}`,
  ]
  for (const text of wrong) assert.equal(parse(text), null, text)
  assert.equal(parse(`00-${traceId}-${spanId}-01`, 'x'.repeat(513))?.traceState, '')
  assert.equal(parse(`00-${traceId}-${spanId}-01`, 'a=\n')?.traceState, '')
})

test('whatever a client sends is read or refused, never more', () => {
  fc.assert(fc.property(fc.string(), fc.string(), (a, b) => void parse(a, b)))
})

test('ids are new, and a context made of them can be read', () => {
  const ids = new Set(Array.from({ length: 1000 }, createTraceId))
  assert.equal(ids.size, 1000)
  for (const id of ids) assert.equal(parse(encodeTraceparent(id, createSpanId()))?.traceId, id)
})
