// Rollouts whose arms are more than two versions of one model: to another model, and with a second copy of stable.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { call, reached, RolloutRepository, type ShownRollout } from './rollout-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const state = await mkdtemp(path.join(tmpdir(), 'galatea-state-'))
const repository = await RolloutRepository.make()
await repository.addVersion(1, { number: 1 })
await repository.addVersion(2, { number: 2 })
await mkdir(path.join(repository.root, 'n'))
const others = new RolloutRepository(repository.root, 'n')
await others.write('config.pbtxt', 'backend: "typescript"\n')
await others.addVersion(5, { number: 50 })
await others.addVersion(6, { number: 60 })
const flags = [`--model-repository=${repository.root}`, `--state-dir=${state}`, '--model-control-mode=explicit', '--load-model=*'] // prettier-ignore
let server = await startServerProcess(flags)
after(async () => {
  await server.stop()
  await repository.remove()
  await rm(state, { recursive: true, force: true })
})

type Answer = { readonly model_name: string; readonly model_version: string; readonly outputs: readonly { readonly data: readonly number[] }[] } // prettier-ignore

async function ask(to: ServerProcess = server): Promise<readonly [name: string, version: string, answer: number]> {
  const inputs = [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }]
  const { status, body } = await call<Answer>(to, '/v2/models/m/infer', { inputs })
  assert.equal(status, 200, JSON.stringify(body))
  return [body.model_name, body.model_version, body.outputs[0]?.data[0] ?? NaN]
}

const steps = [{ weight: 50, for: '1h' }]
const judge = { metrics: { errors: {} } }
const act = (name: string, action: string, body: object = {}) =>
  call<ShownRollout & { error?: string }>(server, `/v2/rollouts/${name}/${action}`, body)

describe('a rollout to another model', () => {
  test('ends with that model behind the name, also after a restart, and a newer rollout begins there', async () => {
    assert.deepEqual(await ask(), ['m', '2', 2])
    const wanted = { model: 'm', name: 'to-n', candidate: { model: 'n', version: 5 }, steps, judge }
    assert.equal((await call(server, '/v2/rollouts', wanted)).status, 201)
    await reached(server, 'RUNNING')
    assert.equal((await call(server, '/v2/models/n/versions/5/ready')).status, 200)
    const seen = new Set<string>()
    await until(async () => seen.add((await ask()).join(' ')).size === 2, 'answers of both models')
    assert.deepEqual([...seen].sort(), ['m 2 2', 'm 5 50'])
    assert.equal((await act('to-n', 'promote')).status, 200)
    await reached(server, 'SUCCEEDED')
    for (let i = 0; i < 5; i++) assert.deepEqual(await ask(), ['m', '5', 50])
    const named = await call<Answer>(server, '/v2/models/m/versions/2/infer', { inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }] }) // prettier-ignore
    assert.equal(named.body.outputs[0]?.data[0], 2)

    await server.stop()
    server = await startServerProcess(flags)
    assert.deepEqual(await ask(), ['m', '5', 50])
    assert.equal((await call(server, '/v2/models/n/versions/6/ready')).status, 200)

    // What serves now is stable, whatever its name is.
    assert.equal((await call(server, '/v2/rollouts', { model: 'm', name: 'back', candidate: 1, steps, judge })).status, 201) // prettier-ignore
    await reached(server, 'RUNNING')
    const both = new Set<number>()
    await until(async () => both.add((await ask())[2]).size === 2, 'answers of both arms')
    assert.deepEqual(both, new Set([1, 50]))
    await act('back', 'rollback')
    await reached(server, 'ROLLED_BACK')
    for (let i = 0; i < 5; i++) assert.deepEqual(await ask(), ['m', '5', 50])
    const again = await call<{ error: string }>(server, '/v2/rollouts', { ...wanted, name: 'same' })
    assert.match(again.body.error, /version 5 of model 'n' is stable already/)
    assert.equal((await call(server, '/v2/rollouts', { model: 'm', name: 'home', candidate: 2, steps, judge })).status, 201) // prettier-ignore
    await reached(server, 'RUNNING')
    await act('home', 'promote')
    await reached(server, 'SUCCEEDED')
    assert.deepEqual(await ask(), ['m', '2', 2])
  })

  test('that goes back holds the version for this model alone', async () => {
    const wanted = { model: 'm', name: 'n6', candidate: { model: 'n' }, steps, judge }
    assert.equal((await call(server, '/v2/rollouts', wanted)).status, 201)
    await reached(server, 'RUNNING')
    await act('n6', 'rollback')
    await reached(server, 'ROLLED_BACK')
    assert.deepEqual(await ask(), ['m', '2', 2])
    const again = await call<{ error: string }>(server, '/v2/rollouts', { ...wanted, name: 'again' })
    assert.deepEqual([again.status, /version 6 of model 'n' is held/.test(again.body.error)], [409, true])
    assert.equal((await call(server, '/v2/repository/models/n/load', {})).status, 200)
    assert.equal((await call(server, '/v2/models/n/versions/6/ready')).status, 200)
  })

  test('is refused where that model is not there, does not serve, or stable is of another model', async () => {
    const wrong: readonly (readonly [object, number, RegExp])[] = [
      [{ candidate: { model: 'nobody' } }, 404, /there is no model 'nobody'/],
      [{ candidate: { model: 'n', version: 9 } }, 400, /model 'n' has no version 9, it has 5, 6/],
      [{ stable: { model: 'n', version: 5 } }, 400, /stable/],
    ]
    for (const [part, status, text] of wrong) {
      const answer = await call<{ error: string }>(server, '/v2/rollouts', { model: 'm', ...part })
      assert.equal(answer.status, status, JSON.stringify(part))
      assert.match(answer.body.error, text)
    }
  })
})

test('a baseline is a second copy of stable with the share of the candidate, and the candidate is compared with it', async () => {
  const body = {
    model: 'm',
    name: 'beside',
    candidate: 1,
    retry: true,
    baseline: true,
    steps: [{ weight: 20, for: '1h' }],
    judge,
  }
  assert.equal((await call(server, '/v2/rollouts', body)).status, 201)
  await reached(server, 'RUNNING')
  type Shown = {
    readonly arms: readonly { readonly arm: string; readonly version: string; readonly requests: number }[]
  }
  const shown = async (): Promise<Shown> => (await call<Shown>(server, '/v2/rollouts/beside')).body
  await until(async () => {
    await Promise.all(Array.from({ length: 20 }, () => ask()))
    const [, candidate, baseline] = (await shown()).arms
    return (candidate?.requests ?? 0) > 10 && (baseline?.requests ?? 0) > 10
  }, 'requests of candidate and baseline')
  const { arms } = await shown()
  assert.deepEqual(arms.map(({ arm, version }) => `${arm} ${version}`), ['stable 2', 'candidate 1', 'baseline 2']) // prettier-ignore
  const metrics = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  assert.match(
    metrics,
    /galatea_variant_requests_total\{arm="baseline",model="m",outcome="success",version="2"\} [1-9]/,
  )
  await act('beside', 'rollback')
  await reached(server, 'ROLLED_BACK')
  assert.deepEqual(await ask(), ['m', '2', 2])
})
