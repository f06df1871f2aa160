// `galatea fleet` and the real Envoy in front of three servers with unlike models: what is routed where, and what goes on when servers
// or the control plane die.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../until.ts'
import { FleetUnderTest, numbers, SteadyLoad } from './fleet-under-test.ts'

const sequence = `sequence_batching { max_sequence_idle_microseconds: 60000000 }`
const fleet = new FleetUnderTest()

before(async () => {
  await fleet.start([
    { shared: {}, alone: {}, uneven: { delayMs: 5 } },
    { shared: { versions: [1, 2] }, steps: { more: sequence }, uneven: { delayMs: 5 } },
    { shared: {}, steps: { more: sequence }, uneven: { delayMs: 100 } },
  ])
  await fleet.shown('three servers and an Envoy', ({ servers, envoys }) => {
    return servers.filter(({ serving }) => serving).length === 3 && envoys.length === 1
  })
  await until(async () => (await fleet.infer('shared').catch(() => 0)) === 200, 'an answer through Envoy', { seen: () => fleet.complaints }) // prettier-ignore
})

after(() => fleet.close())

const asks = (count: number): (() => Promise<unknown>)[] =>
  Array.from({ length: count }, (_, i) =>
    i % 2 === 0 ? () => fleet.infer('shared') : () => fleet.grpc.infer('shared', numbers),
  )

test('requests reach a server that has the model and the version, over HTTP, gRPC and streams', async () => {
  for (let i = 0; i < 6; i++) {
    assert.equal(await fleet.infer('alone'), 200)
    assert.equal(await fleet.infer('shared/versions/2'), 200)
    await fleet.grpc.infer('alone', numbers)
    await fleet.grpc.infer('shared', numbers, { version: '2' })
    for await (const { outputs } of fleet.grpc.inferStream('alone', numbers)) assert.ok(outputs !== undefined)
  }
  assert.deepEqual((await fleet.counts('alone')).map((count) => count > 0), [true, false, false]) // prettier-ignore
  const { models, envoys } = await fleet.shown('models', () => true)
  assert.deepEqual(
    models.map(({ name, differs }) => `${name} ${differs}`),
    ['alone true', 'shared true', 'steps true', 'uneven false'],
  )
  assert.equal(envoys[0]?.problem, '')
})

test('the requests of a sequence stay on one server', async () => {
  // A server that does not know a sequence refuses its second request.
  const steps = [{ start: true }, {}, {}, { end: true }]
  const play = async (id: number): Promise<void> => {
    for (const { start, end } of steps as { start?: boolean; end?: boolean }[]) {
      const given = { id, start: start ?? false, end: end ?? false }
      await fleet.grpc.infer('steps', numbers, { sequence: given })
      const parameters = { sequence_id: id + 1000, sequence_start: given.start, sequence_end: given.end }
      const inputs = [{ name: 'INPUT0', shape: [1, 2], datatype: 'INT32', data: [4, 5] }]
      assert.equal(await fleet.infer('steps', JSON.stringify({ parameters, inputs })), 200, fleet.complaints)
    }
  }
  await Promise.all(Array.from({ length: 12 }, (_, i) => play(i + 1)))
  const [none, ...others] = await fleet.counts('steps')
  assert.equal(none, 0)
  assert.ok(others.every((count) => count > 0) && others.reduce((a, b) => a + b) === 96, String(others))
})

test('streams are spread evenly, and stay where they are', async () => {
  const before = await fleet.counts('shared')
  const streams = await Promise.all(Array.from({ length: 150 }, () => fleet.grpc.openStream()))
  await Promise.all(
    streams.map(async (stream) => {
      await stream.send('shared', numbers)
      const { value } = await stream[Symbol.asyncIterator]().next()
      assert.equal(value?.error ?? null, null)
    }),
  )
  const spread = (await fleet.counts('shared')).map((count, i) => count - (before[i] ?? 0))
  for (const stream of streams) stream.cancel()
  assert.equal(
    spread.reduce((a, b) => a + b),
    150,
  )
  for (const count of spread) assert.ok(count >= 45 && count <= 55, String(spread))
})

test('a slow server gets less: by the load that it reports over HTTP, by the choice of the picker over gRPC', async () => {
  const grpc = (): Promise<unknown> => fleet.grpc.infer('uneven', numbers)
  for (const ask of [() => fleet.infer('uneven'), grpc]) {
    const load = new SteadyLoad(Array.from({ length: 6 }, () => ask))
    let share = 1
    await until(
      async () => {
        const before = await fleet.counts('uneven')
        await load.more(60)
        const done = (await fleet.counts('uneven')).map((count, i) => count - (before[i] ?? 0))
        share = (done[2] ?? 0) / done.reduce((a, b) => a + b)
        return share < 0.2
      },
      'less than a fifth on the slow server',
      { seen: () => share },
    )
    assert.deepEqual(await load.stop(), [])
  }
})

test('no inference fails while servers are stopped or killed and started again, one after the other', async () => {
  const load = new SteadyLoad(asks(6))
  for (const [index, signal] of (['SIGTERM', 'SIGKILL', 'SIGTERM'] as const).entries()) {
    await load.more(60)
    await fleet.restart(index, signal)
  }
  await load.more(60)
  assert.deepEqual(await load.stop(), [])
})

test('no inference fails without a control plane, and a new one knows the fleet again', async () => {
  const alone = (): Promise<unknown> => fleet.grpc.infer('alone', numbers)
  const load = new SteadyLoad([...asks(4), alone])
  await load.more(60)
  await fleet.killControl()
  await load.more(120)
  await fleet.startControl()
  const { servers } = await fleet.shown(
    'the fleet again',
    ({ envoys, picks }) => envoys.length === 1 && (picks['load'] ?? 0) > 20,
  )
  await load.more(60)
  assert.deepEqual(await load.stop(), [])
  assert.deepEqual(servers.map(({ state }) => state), ['ready', 'ready', 'ready']) // prettier-ignore
})

test('requests stay in the zone of their Envoy while a server there lives', async () => {
  await fleet.startEnvoy('zone-1')
  await fleet.shown('the Envoy of the zone', ({ envoys }) => envoys.some(({ zone }) => zone === 'zone-1'))
  await until(async () => (await fleet.infer('shared').catch(() => 0)) === 200, 'an answer through Envoy', { seen: () => fleet.complaints }) // prettier-ignore
  const load = new SteadyLoad(asks(6))
  let seen: number[] = []
  const onlyInZone = async (): Promise<boolean> => {
    const before = await fleet.counts('shared')
    await load.more(60)
    const done = (await fleet.counts('shared')).map((count, i) => count - (before[i] ?? 0))
    seen = done
    return done[0] === 0 && done[2] === 0
  }
  try {
    await until(onlyInZone, 'requests in the zone only', { seen: () => seen })
    await fleet.restart(1, 'SIGKILL')
    await until(onlyInZone, 'requests in the zone again', { seen: () => seen })
  } finally {
    assert.deepEqual(await load.stop(), [])
  }
})
