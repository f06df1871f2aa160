import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ModelConfig } from '../../config/model-config.ts'
import { ask, executeBatch, executeOne, int32Tensor, int32Values, type Asked } from '../backend.contract.ts'
import { int32Config, ScriptUnderTest } from '../script-under-test.contract.ts'

const decoupled = (): ModelConfig => int32Config({ isDecoupled: true })

const preamble = `
import { tensor, InferenceError } from 'galatea/model'
const out = (value) => [tensor('OUT', 'INT32', [1], [value])]
const countOf = (request) => request.input('IN').asInt32()[0]
`

const valuesOf = ({ responses }: Asked): (number | string)[] =>
  responses.map((response) => {
    if (response.error !== null) return response.error.message
    return response.isFlagOnly ? 'end' : (int32Values(response.outputs[0])[0] ?? 'nothing')
  })

const number = (value: number): Asked => ask([int32Tensor('IN', [value])])

const streams: Record<string, string> = {
  'an async generator infer': `export async function* infer(request) { for (let i = 0; i < countOf(request); i++) yield out(i) }`,
  'one iterable per request from execute': `
    async function* count(request) { for (let i = 0; i < countOf(request); i++) { await null; yield out(i) } }
    export const execute = (requests) => requests.map(count)`,
  'an async generator execute': `
    export async function* execute([request]) { for (let i = 0; i < countOf(request); i++) yield out(i) }`,
  'its sender and close': `
    export function execute([request]) {
      for (let i = 0; i < countOf(request); i++) request.sender.send(out(i))
      request.sender.close()
    }`,
}
for (const [form, source] of Object.entries(streams)) {
  test(`a decoupled model may send many responses with ${form}`, async (context) => {
    const script = await ScriptUnderTest.ofModel(context, preamble + source, { config: decoupled() })
    const asked = number(300)
    await executeOne(script.instance, asked)
    assert.deepEqual(valuesOf(asked), [...Array.from({ length: 300 }, (_, i) => i), 'end'])
    const none = number(0)
    await executeOne(script.instance, none)
    assert.deepEqual(valuesOf(none), ['end'])
  })
}

test('the last response may itself be the final one', async (context) => {
  const source = `${preamble} export const infer = ({ sender }) => { sender.send(out(1)); sender.send(out(2), { final: true }) }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: decoupled() })
  const asked = number(0)
  await executeOne(script.instance, asked)
  assert.deepEqual(valuesOf(asked), [1, 2])
  assert.deepEqual(
    asked.responses.map(({ isFinal }) => isFinal),
    [false, true],
  )
})

test('a returned response of a decoupled model is its only one', async (context) => {
  const script = await ScriptUnderTest.ofModel(context, `${preamble} export const infer = () => out(7)`, {
    config: decoupled(),
  })
  const asked = number(0)
  await executeOne(script.instance, asked)
  assert.deepEqual(valuesOf(asked), [7])
})

test('a sender answers long after execute returned, while the instance takes new batches', async (context) => {
  const source = `${preamble}
    const waiting = []
    export function execute(requests) {
      waiting.push(...requests.map((request) => request.sender))
      if (waiting.length < 3) return
      for (const [index, sender] of waiting.entries()) { sender.send(out(index)); sender.close() }
    }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: decoupled() })
  const all = [number(0), number(0), number(0)]
  await executeBatch(script.instance, all.slice(0, 1))
  await executeBatch(script.instance, all.slice(1, 2))
  assert.deepEqual(
    all.map((asked) => asked.responses.length),
    [0, 0, 0],
  )
  await executeBatch(script.instance, all.slice(2))
  await Promise.all(all.map(({ final }) => final))
  assert.deepEqual(all.map(valuesOf), [[0, 'end'], [1, 'end'], [2, 'end']]) // prettier-ignore
})

test('an error in the middle of a stream ends it, after what was sent', async (context) => {
  const source = `${preamble}
    export async function* infer(request) { yield out(1); throw new InferenceError('no more', 'UNAVAILABLE') }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: decoupled() })
  const asked = number(0)
  const final = await executeOne(script.instance, asked)
  assert.deepEqual(valuesOf(asked), [1, 'no more'])
  assert.equal(final.error?.code, 'UNAVAILABLE')
})

test('a decoupled model may send an error and go on', async (context) => {
  const source = `${preamble}
    export async function* infer(request) { yield new InferenceError('hiccup'); yield out(2) }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: decoupled() })
  const asked = number(0)
  await executeOne(script.instance, asked)
  assert.deepEqual(valuesOf(asked), ['hiccup', 2, 'end'])
})

test('a cancelled stream is left: the generator\u2019s finally runs and the request ends as CANCELLED', async (context) => {
  const source = `${preamble}
    export async function* infer(request) {
      try { for (let i = 0; ; i++) { yield out(i); await new Promise(setImmediate) } } finally { console.log('left') }
    }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: decoupled() })
  const asked: Asked = ask([int32Tensor('IN', [0])], {
    onResponse: () => {
      if (asked.responses.length === 3) asked.request.cancel()
    },
  })
  const final = await executeOne(script.instance, asked)
  assert.equal(final.error?.code, 'CANCELLED')
  await script.close()
  assert.ok(script.messages('info').includes('left'))
})

test('one stream for several requests is refused, and told how to do it', async (context) => {
  const source = `${preamble} export async function* execute(requests) { yield out(1) }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: decoupled() })
  const batch = [number(0), number(0)]
  await executeBatch(script.instance, batch)
  const errors = await Promise.all(batch.map(async ({ final }) => (await final).error?.message))
  assert.match(errors[0] ?? '', /one stream for 2 requests; return an array with one for each/)
  assert.equal(errors[0], errors[1])
})

test('a model that is not decoupled may not stream', async (context) => {
  const script = await ScriptUnderTest.ofModel(context, `${preamble} export async function* infer() { yield out(1) }`)
  const { error } = await executeOne(script.instance, number(0))
  assert.match(error?.message ?? '', /streams responses but is not decoupled; set model_transaction_policy/)
})

test('senders refuse what cannot be sent, in the words of Triton', async (context) => {
  const attempt = `const attempt = (fn) => { try { fn(); return 'fine' } catch (e) { return e.message } }`
  const source = `${preamble} ${attempt}
    export function infer({ sender }) {
      console.log(attempt(() => sender.send(null)))
      sender.send(out(1), { final: true })
      console.log(attempt(() => sender.send(out(2))))
      console.log(attempt(() => sender.close()))
    }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: decoupled() })
  await executeOne(script.instance, number(0))
  const single = await ScriptUnderTest.ofModel(
    context,
    `${preamble} ${attempt}
    export function infer({ sender }) {
      console.log(attempt(() => sender.close()))
      sender.send(out(1))
      console.log(attempt(() => sender.send(out(2))))
    }`,
  )
  await executeOne(single.instance, number(0))
  await Promise.all([script.close(), single.close()])
  const closed = 'Unable to send response. Response sender has been closed.'
  assert.deepEqual(script.messages('info'), [
    'Inference Response object must be provided when the response flags is set to zero.',
    closed,
    closed,
  ])
  assert.deepEqual(single.messages('info'), [
    'Unable to send response. Non-decoupled model cannot send complete final before sending a response.',
    'Unable to send response. Non-decoupled model cannot send more than one response.',
  ])
})
