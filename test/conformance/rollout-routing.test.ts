// A live rollout as clients of every protocol see it: which version answers, and what the answer says about itself.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import grpc from '@grpc/grpc-js'
import { SystemClock } from '../../src/base/clock.ts'
import { createHttpPort } from '../../src/http-front-ends.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import { bucketOf } from '../../src/rollouts/assignment.ts'
import { openLiveRollout } from '../../src/rollouts/live-rollout.ts'
import { decodeServing, encodeServing } from '../../src/protocol/tfserving/serving-messages.ts'
import { readRolloutFile } from '../../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../../src/rollouts/rollout-plan.ts'
import { inject } from '../fakes/injected-request.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { decode, encode, GrpcFixture, service } from './grpc-fixture.ts'

const clock = new SystemClock()
const fixture = await GrpcFixture.start({}, {}, { hasTfserving: true })
const { engine } = fixture
const port = createHttpPort({ engine, log: new MemoryLog(), clock }, { ...defaultOptions().http, port: 0 })
after(() => fixture.close())

function open(file: object, weight: number) {
  const { plan, problems } = readRolloutFile({ kind: 'rollout', ...file }, () => null)
  assert.deepEqual(problems, [])
  const arms = ['stable', 'candidate'].map((name, i) => ({ name, model: 'versions_all', version: String(i + 1) }))
  const settings = { name: 'r1', model: 'versions_all', plan: plan as RolloutPlan, arms, known: {}, seed: 7 }
  const live = openLiveRollout({ engine, clock, countryOf: () => '' }, settings)
  live.setWeights([0, weight])
  return live
}

const inputs = (shape: readonly number[], data: readonly number[]): object => ({
  inputs: [{ name: 'CODE', shape, datatype: 'INT32', data }],
})

type Said = {
  readonly path?: string
  readonly headers?: readonly (readonly [string, string])[]
  readonly body?: object
}

async function post({ path = '/v2/models/versions_all/infer', headers = [], body = inputs([1], [0]) }: Said = {}) {
  const answer = await inject(port, { method: 'POST', path, headers, body: JSON.stringify(body) })
  const json = JSON.parse(answer.body.toString()) as { readonly model_version?: string; readonly error?: string }
  return [answer.status, json.model_version, answer.headers['galatea-variant']]
}

const wire = (more: object = {}): Buffer =>
  encode('ModelInferRequest', {
    model_name: 'versions_all',
    inputs: [{ name: 'CODE', datatype: 'INT32', shape: [1] }],
    raw_input_contents: [Buffer.alloc(4)],
    ...more,
  })

/** The answer of a unary call, and the variant in its initial metadata. */
async function unary(path: string, message: Buffer, metadata: Readonly<Record<string, string>> = {}) {
  const sent = new grpc.Metadata()
  for (const [name, value] of Object.entries(metadata)) sent.set(name, value)
  const unchanged = (bytes: Buffer): Buffer => bytes
  let initial = new grpc.Metadata()
  const { client } = fixture
  const bytes = await new Promise<Buffer>((resolve, reject) => {
    client
      .makeUnaryRequest(path, unchanged, unchanged, message, sent, (error, value) =>
        value === undefined ? reject(error ?? new Error('no answer')) : resolve(value),
      )
      .on('metadata', (received) => (initial = received))
  })
  return { bytes, variant: initial.get('galatea-variant')[0] }
}

/** The version, and the variant. */
async function call(metadata: Readonly<Record<string, string>> = {}, more: object = {}) {
  const { bytes, variant } = await unary(`${service}ModelInfer`, wire(more), metadata)
  const { model_version: version } = decode('ModelInferResponse', bytes)
  return [version, variant]
}

/** The same by TensorFlow Serving's API. */
async function predict() {
  const code = { dtype: 'DT_INT32', tensorShape: { dim: [{ size: 1n }] }, tensorContent: Buffer.alloc(4) }
  const request = { modelSpec: { name: 'versions_all' }, inputs: new Map([['CODE', code]]) }
  const path = '/tensorflow.serving.PredictionService/Predict'
  const { bytes, variant } = await unary(path, encodeServing('PredictRequest', request))
  const { version } = decodeServing('PredictResponse', bytes)['modelSpec'] as { readonly version: { value: bigint } }
  return [version.value, variant]
}

test('every protocol routes, and its answers name the variant', async (t) => {
  const live = open({}, 10_000)
  t.after(() => live.close())
  assert.deepEqual(await post(), [200, '2', 'r1/candidate/2'])
  assert.deepEqual(await post({ path: '/v2/models/versions_all/versions/10/infer' }), [200, '10', undefined])
  const generated = await post({ path: '/v2/models/versions_all/generate', body: { CODE: 0 } })
  assert.deepEqual(generated, [200, '2', 'r1/candidate/2'])
  const predicted = await post({ path: '/v1/models/versions_all:predict', body: { instances: [0] } })
  assert.deepEqual(predicted.slice(0, 1).concat(predicted.slice(2)), [200, 'r1/candidate/2'])
  assert.deepEqual(await call(), ['2', 'r1/candidate/2'])
  assert.deepEqual(await call({}, { model_version: '1' }), ['1', undefined])
  assert.deepEqual(await predict(), [2n, 'r1/candidate/2'])
  const stream = fixture.stream()
  const answered = once(stream, 'data')
  const headed = once(stream, 'metadata')
  stream.write(wire())
  const [bytes] = (await answered) as [Buffer]
  const [initial] = (await headed) as [grpc.Metadata]
  const answer = decode('ModelStreamInferResponse', bytes)['infer_response'] as { readonly model_version: string }
  assert.deepEqual([answer.model_version, initial.get('galatea-variant')[0]], ['2', 'r1/candidate/2'])
  stream.end()
  assert.deepEqual(live.arms[1]?.ended.success, 6)
})

test('errors of a version name the variant too, and expose: false names none', async (t) => {
  const hidden = open({ expose: false }, 10_000)
  assert.deepEqual(await post(), [200, '2', undefined])
  assert.deepEqual(await call(), ['2', undefined])
  hidden.close()
  const live = open({ fallback: 'none' }, 10_000)
  t.after(() => live.close())
  const [status, , variant] = await post({ body: inputs([1], [2]) })
  assert.deepEqual([status, variant], [500, 'r1/candidate/2'])
})

test('keys from headers, cookies and the body, and rules, are the same over HTTP and gRPC', async (t) => {
  const key = ['header:x-user', 'cookie:session', 'parameter:user_id']
  const rules = [
    { when: { header: { 'x-beta': { equals: 'yes' } } }, to: 'candidate' },
    { when: { protocol: 'grpc', header: { 'x-old': { matches: '^v[0-3]$' } } }, to: 'stable' },
  ]
  const live = open({ key, rules, salt: 's' }, 5000)
  t.after(() => live.close())
  const expected = (user: string): string => (bucketOf('s', user) < 5000 ? '2' : '1')
  for (let i = 0; i < 20; i++) {
    const user = `user-${i}`
    const parameters = { user_id: user }
    const versions = [
      (await post({ headers: [['X-User', user]] }))[1],
      (await post({ headers: [['Cookie', `a=b; session=${user}`]] }))[1],
      (await post({ body: { ...inputs([1], [0]), parameters } }))[1],
      (await call({ 'x-user': user }))[0],
      (await call({}, { parameters: { user_id: { string_param: user } } }))[0],
    ]
    assert.deepEqual(
      versions,
      versions.map(() => expected(user)),
    )
  }
  const [low, high] = ['in', 'out'].map((side) => {
    const isWanted = (user: string): boolean => bucketOf('s', user) < 5000 === (side === 'in')
    return Array.from({ length: 20 }, (_, i) => `user-${i}`).find(isWanted) as string
  })
  assert.equal((await call({ 'x-user': low as string, 'x-old': 'v3' }))[0], '1')
  assert.equal((await call({ 'x-user': high as string, 'x-beta': 'yes' }))[0], '2')
  assert.equal((await post({ headers: [['X-User', low as string], ['X-Old', 'v3']] }))[1], '2') // prettier-ignore
})

test('a client that sends the variant back stays with its arm', async (t) => {
  const live = open({ key: ['variant'] }, 5000)
  t.after(() => live.close())
  for (const variant of ['r1/candidate/2', 'r1/stable/1']) {
    for (let i = 0; i < 10; i++) {
      assert.deepEqual(await post({ headers: [['Galatea-Variant', variant]] }), [200, variant.at(-1), variant])
    }
  }
})
