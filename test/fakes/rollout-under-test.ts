// A live rollout on a real Engine, with versions that answer when they are told to.

import assert from 'node:assert/strict'
import { anonymous } from '../../src/access/caller.ts'
import type { RequestFacts } from '../../src/model/choice.ts'
import { InferenceRequest, type InferenceRequestInit } from '../../src/model/inference-request.ts'
import type { InferenceResponse } from '../../src/model/inference-response.ts'
import { openLiveRollout } from '../../src/rollouts/live-rollout.ts'
import { readRolloutFile } from '../../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../../src/rollouts/rollout-plan.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { engineOnShelf, plainModelText, shelvedModel } from './engine-on-shelf.ts'
import { ManualClock } from './manual-clock.ts'

function planOf(file: object): RolloutPlan {
  const { plan, problems } = readRolloutFile({ kind: 'rollout', ...file }, () => null)
  assert.deepEqual(problems, [])
  return plan as RolloutPlan
}

type Sent = { readonly request: InferenceRequest; readonly answers: InferenceResponse[]; readonly variants: string[] }

type Setting = { readonly weight?: number; readonly extra?: string; readonly pressure?: () => number }

/** Model `m` with the versions 1 and 2; all requests go to version 2 unless `weight` says otherwise. */
export async function rolloutUnderTest(file: object = {}, options: Setting = {}) {
  const clock = new ManualClock()
  clock.advanceUs(1000)
  const text = plainModelText('m', `version_policy { all {} } ${options.extra ?? ''}`)
  const { engine, backend } = engineOnShelf(clock, [shelvedModel('m', text, { versions: ['1', '2'] })])
  await engine.start()
  const live = openLiveRollout(
    { engine, clock, countryOf: () => '', pressure: options.pressure ?? (() => 0) },
    {
      name: 'r1',
      model: 'm',
      plan: planOf(file),
      arms: [
        { name: 'stable', model: 'm', version: '1' },
        { name: 'candidate', model: 'm', version: '2' },
      ],
      known: {},
      seed: 1,
    },
  )
  live.setWeights([0, options.weight ?? 10_000])
  const send = (init: Partial<InferenceRequestInit> = {}, headers: Readonly<Record<string, string>> = {}): Sent => {
    const sent: Sent = { request: null as unknown as InferenceRequest, answers: [], variants: [] }
    const facts: RequestFacts = {
      protocol: 'http',
      api: 'inference',
      path: '/',
      peer: '',
      caller: anonymous,
      watch: null,
      header: (name) => headers[name] ?? null,
      head: () => ({
        id: '',
        parameters: new Map(),
        correlationId: init.correlationId ?? 0n,
        isSequenceStart: init.isSequenceStart === true,
      }),
    }
    const version = engine.choose('m', init.modelVersion ?? '', facts)
    const request = new InferenceRequest({
      modelName: 'm',
      inputs: [new Tensor('IN', 'FP32', [1], new Uint8Array(4))],
      sink: (answer) => {
        sent.answers.push(answer)
        sent.variants.push(facts.watch?.variant ?? '')
      },
      ...init,
    })
    request.watch = facts.watch
    facts.watch?.begun(request, true)
    engine.infer(request, facts.watch?.version ?? version)
    return Object.assign(sent, { request })
  }
  const errorsOf = (sent: Sent): string[] => sent.answers.map(({ error }) => error?.message ?? '')
  return { clock, engine, backend, live, send, errorsOf }
}
