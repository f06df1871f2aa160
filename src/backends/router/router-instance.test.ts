import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { silentLog } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { emptyModelConfig } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import { Batch } from '../../model/batch.ts'
import type { ChatModels } from '../../model/chat-models.ts'
import type { CustomMetrics } from '../../model/custom-metrics.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelServices } from '../../model/model-services.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { stringsOf, tensorOfStrings } from '../../tensor/typed-values.ts'
import { completeLanguageConfig } from '../complete-language-config.ts'
import { RouteTally } from './route-tally.ts'
import { RouterInstance } from './router-instance.ts'

/** A router in front of `small` and `large`. Requests to them are kept for the test. */
function routerUnderTest(away: readonly string[] = []): {
  asked: InferenceRequest[]
  send: (onExecuted?: () => void) => { request: InferenceRequest; answers: InferenceResponse[] }
} {
  const asked: InferenceRequest[] = []
  const find = (name: string): ModelVersion | null => {
    const config = completeLanguageConfig({ ...emptyModelConfig(), name, backend: 'llamacpp' })
    return away.includes(name)
      ? null
      : ({ name, config, signature: new ModelSignature(config, new Map()) } as ModelVersion)
  }
  const chats: ChatModels = { find, prepare: () => Promise.reject(new Error('no chats')), close: () => undefined }
  const metrics = {
    createFamily: () => undefined,
    createMetric: () => 1,
    increment: () => undefined,
  } as unknown as CustomMetrics
  const services = {
    metrics,
    infer: (request: InferenceRequest) => void asked.push(request),
  } as unknown as ModelServices
  const models = ['small', 'large']
  const router = {
    clock: new ManualClock(),
    services,
    chats,
    name: 'chat',
    plan: { models, rules: [], key: [], tokenizer: 'small', hasFallback: true },
    tally: new RouteTally(metrics, { model: 'chat', version: '1', targets: models }),
    log: silentLog,
  }
  const spec = { name: 'chat_0', kind: 'KIND_CPU', deviceId: 0, index: 0, onReadinessChange: () => undefined } as const
  const instance = new RouterInstance(router, spec)
  const send = (onExecuted = (): void => undefined): ReturnType<ReturnType<typeof routerUnderTest>['send']> => {
    const answers: InferenceResponse[] = []
    const inputs = [tensorOfStrings('text_input', [1], ['hi'])]
    const request = new InferenceRequest({ modelName: 'chat', inputs, sink: (response) => void answers.push(response) })
    instance.execute(new Batch([request], 1, onExecuted))
    return { request, answers }
  }
  return { asked, send }
}

const said = (text: string, isFinal: boolean): InferenceResponse =>
  InferenceResponse.of([tensorOfStrings('text_output', [1], [text])], { isFinal })
const textsOf = (answers: readonly InferenceResponse[]): string[][] =>
  answers.map(({ outputs }) => outputs.flatMap((tensor) => stringsOf(tensor)))

test('a model that failed before its first word is replaced, and one that failed later is not', async () => {
  const { asked, send } = routerUnderTest()
  const { answers } = send()
  await turn()
  asked[0]?.fail(ServerError.withoutStack('UNAVAILABLE', 'full'))
  await turn()
  assert.deepEqual(asked.map(({ modelName }) => modelName), ['small', 'large']) // prettier-ignore
  asked[1]?.respond(said('he', false))
  asked[1]?.fail(ServerError.withoutStack('INTERNAL', 'died'))
  await turn()
  assert.deepEqual(textsOf(answers), [['he', 'large'], []])
  assert.deepEqual([answers[1]?.error?.message, answers[1]?.isFinal, asked.length], ['died', true, 2])
})

test('a model that is away is left out, and when all are the refusal names each', async () => {
  const one = routerUnderTest(['small'])
  one.send()
  await turn()
  assert.deepEqual(one.asked.map(({ modelName }) => modelName), ['large']) // prettier-ignore
  const none = routerUnderTest(['small', 'large'])
  const { answers } = none.send()
  await turn()
  assert.deepEqual([answers[0]?.error?.code, answers[0]?.error?.message], ['UNAVAILABLE', "no model behind router 'chat' can answer now: 'small' is not ready; 'large' is not ready"]) // prettier-ignore
})

test('a client that leaves or reads slowly is felt by the model that answers', async () => {
  const { asked, send } = routerUnderTest()
  const { request, answers } = send()
  await turn()
  const [child] = asked
  request.setPaused(true)
  assert.equal(child?.isPaused, true)
  request.cancel()
  assert.equal(child.isCancelled, true)
  child.failCancelled()
  await turn()
  assert.deepEqual([answers[0]?.error?.code, asked.length], ['CANCELLED', 1])
})

test('with 1,024 requests under way the next batch waits until one has ended', async () => {
  const { asked, send } = routerUnderTest()
  let executed = 0
  for (let i = 0; i < 1024; i++) send(() => executed++)
  await turn()
  assert.equal(executed, 1023)
  asked[0]?.respond(said('hi', true))
  await turn()
  assert.equal(executed, 1024)
})
