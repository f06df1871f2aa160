import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { silentLog } from '../../base/log.ts'
import type { ServerError } from '../../base/server-error.ts'
import {
  ask,
  executeBatch,
  executeOne,
  filesOf,
  instanceSpec,
  int32Tensor,
  int32Values,
  loadModel,
  type Asked,
} from '../backend.contract.ts'
import { folderOf, int32Config, ScriptUnderTest } from '../script-under-test.contract.ts'
import { TypeScriptBackend } from './typescript-backend.ts'

/** Does as the request's first number says; 0 answers with 42. */
const preamble = `
import { tensor, fromBytes, InferenceError } from 'galatea/model'
const out = (values = [42]) => [tensor('OUT', 'INT32', [values.length], values)]
const wish = (request) => request.input('IN').asInt32()[0]
`
const number = (value: number): Asked => ask([int32Tensor('IN', [value])])
const errorOf = async (script: ScriptUnderTest, value: number): Promise<ServerError | null> =>
  (await executeOne(script.instance, number(value))).error
const prefix = "Failed to process the request(s) for model 'm_0', message: "

test('an InferenceError reaches the client with its code and message, as the model wrote them', async (context) => {
  const script = await ScriptUnderTest.ofModel(
    context,
    `${preamble} export const infer = () => { throw new InferenceError('too dark', 'INVALID_ARG') }`,
  )
  const error = await errorOf(script, 0)
  assert.deepEqual([error?.code, error?.message], ['INVALID_ARG', 'too dark'])
  assert.deepEqual(script.log.entries, [], 'an answer is no event')
})

test('another exception is INTERNAL, names the model, and leaves its stack in the log', async (context) => {
  const script = await ScriptUnderTest.ofModel(context, `${preamble} export const execute = () => { undefined.x }`)
  const error = await errorOf(script, 0)
  assert.equal(error?.code, 'INTERNAL')
  assert.ok(error.message.startsWith(`${prefix}TypeError: Cannot read properties of undefined`))
  const logged = script.log.entries.find(({ level }) => level === 'error')
  assert.match(String(logged?.fields['stack']), /1\/model\.ts:\d+:\d+/)
  assert.equal(logged?.fields['model'], 'm')
})

test('what throws in infer fails its own request only; what throws in execute fails the batch', async (context) => {
  const body = `if (wish(request) === 1) throw new Error('one'); return out()`
  const single = await ScriptUnderTest.ofModel(context, `${preamble} export const infer = (request) => { ${body} }`)
  const batch = [number(0), number(1), number(0)]
  await executeBatch(single.instance, batch)
  assert.deepEqual(
    batch.map(({ responses }) => responses[0]?.error?.message ?? null),
    [null, `${prefix}Error: one`, null],
  )
  const whole = await ScriptUnderTest.ofModel(
    context,
    `${preamble} export const execute = (requests) => requests.map((request) => { ${body} })`,
  )
  const failed = [number(0), number(1)]
  await executeBatch(whole.instance, failed)
  assert.deepEqual(
    failed.map(({ responses }) => responses[0]?.error?.message),
    [`${prefix}Error: one`, `${prefix}Error: one`],
  )
})

const garbage: Record<string, readonly [code: string, expected: RegExp]> = {
  'not a list': [`execute = () => 'yes'`, /Expected a list in the execute return, found a string\.$/],
  'too few answers': [`execute = () => []`, /InferenceRequest\(s\) size is:1, and InferenceResponse\(s\) size is:0/],
  'an answer that is none': [`execute = () => [5]`, /expected a response \(an array of tensors, or \{ outputs \}\), got a number/],
  'nothing, with no sender taken': [`infer = () => {}`, /returned nothing for a request and did not take its sender/],
  'outputs that are no array': [`infer = () => ({ outputs: 5 })`, /outputs must be an array of tensors, got a number/],
  'a bare typed array': [`infer = () => [new Int32Array(1)]`, /output 0 is an instance of Int32Array, expected a tensor made with/],
  'an unknown output': [`infer = () => [tensor('X', 'INT32', [1], [1])]`, /output 'X' is not in the model's configuration, which has 'OUT'/],
  'another type': [`infer = () => [tensor('OUT', 'FP32', [1], [1])]`, /output 'OUT': expected datatype INT32, got FP32/],
  'another rank': [`infer = () => [tensor('OUT', 'INT32', [1, 1], [1])]`, /output 'OUT': expected shape \[-1\], got \[1,1\]/],
  'values that do not fill the shape': [`infer = () => [tensor('OUT', 'INT32', [3], [1])]`, /'OUT': shape \[3\] takes 3 elements, got 1/],
  'bytes that do not fill the shape': [`infer = () => [fromBytes('OUT', 'INT32', [3], new Uint8Array(4))]`, /'OUT': INT32 of shape \[3\] takes 12 bytes, got 4/],
  'a value that does not fit': [`infer = () => [tensor('OUT', 'INT32', [1], [2 ** 31])]`, /'OUT': value 2147483648 at index 0 does not fit INT32/],
  'an output twice': [`infer = () => [...out(), ...out()]`, /output 'OUT' is in the response twice/],
  'a parameter that cannot be sent': [`infer = () => ({ outputs: out(), parameters: { a: {} } })`, /response parameter 'a': expected string, number, bigint or boolean, got an object/],
  'memory already handed over': [`large = new Int32Array(65536); export const infer = (r) => wish(r) === 0 ? [tensor('OUT', 'INT32', [65536], large)] : []`, /its memory was handed over with an earlier response|takes 65536 elements, got 0/],
} // prettier-ignore
for (const [what, [code, expected]] of Object.entries(garbage)) {
  test(`a model that answers with ${what} gets a clear error and goes on`, async (context) => {
    const script = await ScriptUnderTest.ofModel(context, `${preamble} export const ${code}`)
    if (what.startsWith('memory')) assert.equal(await errorOf(script, 0), null)
    for (let round = 0; round < 2; round++) {
      const error = await errorOf(script, 0)
      assert.equal(error?.code, 'INTERNAL')
      assert.match(error.message, expected)
    }
    assert.equal(script.instance.isReady, true)
  })
}

const deaths: Record<string, readonly [code: string, expected: RegExp]> = {
  'calls process.exit': [`process.exit(3)`, /instance 'm_0' failed: its (code called process\.exit\(3\)|process ended with exit code 3)/],
  'throws outside of execute': [`setImmediate(() => { throw new RangeError('late') }); await new Promise(() => {})`, /failed: uncaught exception: RangeError: late/],
  'leaves a rejection unhandled': [`void Promise.reject(new Error('lost')); await new Promise(() => {})`, /failed: uncaught exception: .*Error: lost/],
  'exhausts its memory': [`const all = []; for (;;) all.push({ a: { b: all.length } })`, /failed: out of memory/],
  'hangs': [`for (;;);`, /failed: execution took longer than max_execution_ms \(500\)/],
  'waits for ever': [`await new Promise(() => {})`, /failed: execution took longer than max_execution_ms \(500\)/],
} // prettier-ignore
for (const isolation of ['thread', 'process']) {
  for (const [what, [code, expected]] of Object.entries(deaths)) {
    test(`a model in a ${isolation} that ${what} fails its batch, is replaced, and hurts no neighbour`, async (context) => {
      const parameters = {
        max_memory_mb: '24',
        isolation,
        ...(expected.source.includes('max_execution') ? { max_execution_ms: '500' } : {}),
      }
      const source = `${preamble}
        export async function execute(requests) {
          if (requests.some((request) => wish(request) === 1)) { ${code} }
          return requests.map(() => out())
        }`
      const script = await ScriptUnderTest.ofModel(context, source, { config: int32Config({ parameters }) })
      const neighbour = await ScriptUnderTest.ofModel(context, source)
      const batch = [number(1), number(0)]
      await executeBatch(script.instance, batch)
      for (const { responses } of batch) {
        assert.equal(responses.length, 1)
        assert.equal(responses[0]?.error?.code, 'INTERNAL')
        assert.match(responses[0].error.message, expected)
      }
      assert.equal(script.instance.isReady, false)
      assert.deepEqual(int32Values((await executeOne(neighbour.instance, number(0))).outputs[0]), [42])
      await script.untilReady(true)
      assert.deepEqual(int32Values((await executeOne(script.instance, number(0))).outputs[0]), [42])
    })
  }
}

test('cancelling is seen through the signal, and an aborted wait ends the request as CANCELLED', async (context) => {
  const source = `${preamble}
    import { setTimeout as wait } from 'node:timers/promises'
    export const infer = async (request) => { console.log('waiting'); await wait(1e6, null, { signal: request.signal }); return out() }`
  const script = await ScriptUnderTest.ofModel(context, source)
  const batch = [number(0), number(0)]
  const executed = executeBatch(script.instance, batch)
  for (const { request } of batch) request.cancel()
  await executed
  const errors = await Promise.all(batch.map(async ({ final }) => (await final).error))
  assert.deepEqual(errors.map((error) => [error?.code, error?.message]), [['CANCELLED', ''], ['CANCELLED', '']]) // prettier-ignore
  assert.deepEqual(script.messages('error'), [])
})

test('a model whose isReady says no is not ready until it says yes', async (context) => {
  const source = `${preamble}
    let isUp = false
    export const isReady = async () => isUp
    export const infer = () => { isUp = true; return out() }`
  const script = await ScriptUnderTest.ofModel(context, source)
  await script.untilReady(false)
  await executeOne(script.instance, number(0))
  await script.untilReady(true)
})

test('a model that does not finish when told is ended after the grace time', async (context) => {
  const clock = new ManualClock()
  const source = `${preamble} export const infer = () => out()
    export const finalize = () => { console.log('finishing'); return new Promise(() => {}) }`
  const script = await ScriptUnderTest.ofModel(context, source, { clock })
  const closing = script.close()
  clock.advanceMs(10_000)
  await closing
  assert.ok(script.messages('warning').includes('worker did not finish in time, it is ended'))
})

test('a model may log what cannot be sent: it arrives as text', async (context) => {
  const source = `${preamble} let log
    export const initialize = (args) => { log = args.log }
    export const infer = () => { log.info({ a: 1 }, { fn: () => 1, list: [1, 2] }); return out() }`
  const script = await ScriptUnderTest.ofModel(context, source)
  assert.equal(await errorOf(script, 0), null)
  const [entry] = script.log.entries
  assert.deepEqual([entry?.message, entry?.fields['list']], ['{ a: 1 }', '[ 1, 2 ]'])
})

const badLoads: Record<string, readonly [source: string, expected: RegExp]> = {
  'does not parse': ['export const infer = (', /failed to initialize model 'm' \(m\): SyntaxError: .* \(.*1\/model\.ts(:1)?\)$/],
  'has no execute': ['export const run = 1', /must export a function execute\(requests\) or infer\(request\).*it exports run/s],
  'imports what is not there': [`import 'nowhere'; export const infer = 1`, /Cannot find package 'nowhere'/],
  'throws when loaded': [`throw new Error('not today')`, /Error: not today \(.*1\/model\.ts:1:7\)$/],
  'describes itself with what cannot be sent': ['export const config = { fn() {} }; export const infer = () => []', /DataCloneError: fn\(\) \{\} could not be cloned/],
  'exits when loaded': [`process.exit(1)`, /its code called process\.exit\(1\)/],
} // prettier-ignore
for (const [what, [source, expected]] of Object.entries(badLoads)) {
  test(`a model that ${what} does not load, and says why`, async (context) => {
    const directory = await folderOf(context, { '1/model.ts': source })
    const backend = new TypeScriptBackend({ clock: new SystemClock(), log: silentLog })
    await assert.rejects(backend.complete(int32Config(), filesOf(directory)), expected)
  })
}

test('a model whose initialize throws or hangs does not load', async (context) => {
  const throwing = `${preamble} export const infer = () => out()
    export const initialize = () => { throw new InferenceError('no weights', 'NOT_FOUND') }`
  await assert.rejects(ScriptUnderTest.ofModel(context, throwing), {
    code: 'NOT_FOUND',
    message: "failed to initialize model 'm' (m_0): no weights",
  })
  const hanging = `${preamble} export const infer = () => out()
    export const initialize = () => { for (;;); }`
  const config = int32Config({ parameters: { max_initialize_ms: '300' } })
  await assert.rejects(
    ScriptUnderTest.ofModel(context, hanging, { config }),
    /not initialised within max_initialize_ms \(300\)/,
  )
})

test('a limit that is no number fails the load and says which', async (context) => {
  const config = int32Config({ parameters: { max_memory_mb: 'lots' } })
  await assert.rejects(ScriptUnderTest.ofModel(context, `${preamble} export const infer = () => out()`, { config }), {
    code: 'INVALID_ARG',
    message: "model 'm': parameter 'max_memory_mb' must be an integer of 0 or more, got 'lots'",
  })
})

/** Threads of this process: all of them on Linux, elsewhere those that Node counts. */
const threadCount = (): number =>
  process.platform === 'linux'
    ? readdirSync('/proc/self/task').length
    : process.getActiveResourcesInfo().filter((name) => name === 'Worker').length

test('many deaths in a row leave no thread behind and no request unanswered', async (context) => {
  const clock = new ManualClock()
  const directory = await folderOf(context, {
    '1/model.ts': `${preamble} export const infer = (request) => wish(request) === 1 ? process.exit(1) : out()`,
  })
  const backend = new TypeScriptBackend({ clock, log: silentLog })
  const model = await loadModel(backend, int32Config(), filesOf(directory))
  const { promise: first, resolve } = Promise.withResolvers<void>()
  let onChange = resolve
  const instance = await model.createInstance(instanceSpec('m', 0, () => onChange()))
  await first
  const before = threadCount()
  const deaths = 60
  let answered = 0
  for (let death = 0; death < deaths; death++) {
    answered += (await executeOne(instance, number(1))).error === null ? 0 : 1
    const { promise, resolve: ready } = Promise.withResolvers<void>()
    onChange = () => instance.isReady && ready()
    clock.advanceMs(30_000)
    await promise
  }
  assert.equal(answered, deaths)
  assert.equal((await executeOne(instance, number(0))).error, null)
  assert.ok(threadCount() <= before + 1, `${threadCount()} threads, ${before} at first`)
  await instance.close()
})
