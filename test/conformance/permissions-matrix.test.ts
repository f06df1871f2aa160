// Every route of every HTTP port and every RPC × every action of `--access-config`. The lists come from the tables of routes and
// methods: one that is new and has no row here fails the test.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AccessAdmission } from '../../src/access/access-admission.ts'
import { readAccessConfig, type AccessConfig } from '../../src/access/access-config.ts'
import { AccessPolicy } from '../../src/access/access-policy.ts'
import { actions, serverActions, type Action } from '../../src/access/action.ts'
import type { Admission } from '../../src/access/admission.ts'
import { makeCaller } from '../../src/access/caller.ts'
import { Rights } from '../../src/access/rights.ts'
import { NamePattern } from '../../src/access/name-pattern.ts'
import { SystemClock } from '../../src/base/clock.ts'
import { metricsRoutes } from '../../src/frontends/metrics/metrics-routes.ts'
import { openAiOwnRoutes } from '../../src/frontends/openai/openai-routes.ts'
import { sagemakerRoutes } from '../../src/frontends/sagemaker/sagemaker-routes.ts'
import {
  inferenceRoutes,
  managementRoutes,
  torchserveMetricsRoutes,
} from '../../src/frontends/torchserve/torchserve-routes.ts'
import { torchserveInferenceGrpc, torchserveManagementGrpc } from '../../src/frontends/torchserve/torchserve-grpc.ts'
import { vertexAiRoutes } from '../../src/frontends/vertex-ai/vertex-ai-routes.ts'
import { grpcFrontEnds } from '../../src/grpc-front-ends.ts'
import { tfservingRoutes } from '../../src/frontends/tfserving/tfserving-routes.ts'
import { httpRoutes } from '../../src/http-front-ends.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import { HttpCallFacts } from '../../src/ports/http/http-call-facts.ts'
import type { Route } from '../../src/ports/http/route.ts'
import { ProtobufWriter } from '../../src/protobuf/protobuf-writer.ts'
import { tfservingFrontEnd } from '../../src/tfserving-front-end.ts'
import { Router } from '../../src/ports/http/router.ts'
import { factsOf } from '../fakes/admission-facts.ts'
import { anyPart } from '../fakes/any-part.ts'
import { InjectedRequest } from '../fakes/injected-request.ts'
import { GrpcFixture, type Message } from './grpc-fixture.ts'

/**
 * `model`: the path or the message names a model, and a right for that model is enough. `some`: a right for any model is enough, and
 * the answer leaves out the others. `all`: only a right for all models is enough. `self`: whoever is known. `console`: as
 * `all`, and the right `console` is enough as well.
 */
type Scope = 'model' | 'some' | 'all' | 'self' | 'console'
type Rule = `${Action} ${Scope}`

const m = '/v2/models/{model}'
const v = `${m}[/versions/{version}]`
const [system, cuda] = ['/v2/systemsharedmemory', '/v2/cudasharedmemory']
const rollout = '/v2/rollouts/{rollout}'

const httpRules: Readonly<Record<string, Rule>> = {
  '/v2/health/live': 'health some',
  '/v2/health/ready': 'health some',
  '/health/live': 'health some',
  '/health/ready': 'health some',
  '/v2/health/detail': 'health console',
  '/v2': 'metadata some',
  '/v2/openapi.json': 'metadata some',
  [v]: 'metadata model',
  [`${v}/ready`]: 'health model',
  [`${v}/config`]: 'model-config model',
  [`${v}/infer`]: 'inference model',
  [`${v}/generate`]: 'inference model',
  [`${v}/generate_stream`]: 'inference model',
  [`${v}/predict`]: 'inference model',
  // The model that the upload names is compared with the rights when the upload is read.
  '/predict': 'inference some',
  '/v1/models': 'metadata some',
  '/v2/models': 'metadata some',
  '/v1/models/{model}': 'health model',
  ...Object.fromEntries(
    ['chat/completions', 'completions', 'responses', 'embeddings', 'rerank', 'audio/transcriptions', 'batches'].map(
      (name) => [`/v1/${name}`, 'inference some'] as const,
    ),
  ),
  // Who made a file or a batch sees it, and nobody else.
  ...Object.fromEntries(
    ['files', 'files/{file}', 'files/{file}/content', 'batches/{batch}', 'batches/{batch}/cancel'].map(
      (name) => [`/v1/${name}`, 'inference some'] as const,
    ),
  ),
  '/tokenize': 'inference some',
  '/detokenize': 'inference some',
  '/v1/models/{model}/load': 'model-repository model',
  '/v1/models/{model}/unload': 'model-repository model',
  '/v1/models/{model}:explain': 'inference model',
  '/v1/models/{model}:predict': 'inference model',
  '/v2/repository[/{repository}]/index': 'model-repository some',
  '/v2/repository/models/{model}/load': 'model-repository model',
  '/v2/repository/models/{model}/unload': 'model-repository model',
  // Refused for everybody.
  '/v2/repository/{repository}/models/{model}/load': 'model-repository some',
  '/v2/repository/{repository}/models/{model}/unload': 'model-repository some',
  '/v2/registry': 'model-repository some',
  [`${v}/registry`]: 'model-repository model',
  [`${m}/registry/history`]: 'model-repository model',
  '/v2/models/stats': 'statistics some',
  [`${v}/stats`]: 'statistics model',
  '/v2/trace/setting': 'trace all',
  [`${m}/trace/setting`]: 'trace model',
  '/v2/logging': 'logging some',
  '/v2/live': 'statistics console',
  '/v2/live/history': 'statistics console',
  '/v2/logs': 'logging console',
  '/v2/traces': 'trace console',
  '/v2/fleet': 'statistics console',
  '/v2/repository/findings': 'model-repository console',
  [`${system}[/region/{region}]/status`]: 'shared-memory some',
  [`${system}[/region/{region}]/register`]: 'shared-memory some',
  [`${system}[/region/{region}]/unregister`]: 'shared-memory some',
  [`${cuda}[/region/{region}]/status`]: 'shared-memory some',
  [`${cuda}[/region/{region}]/register`]: 'shared-memory some',
  [`${cuda}[/region/{region}]/unregister`]: 'shared-memory some',
  '/v2/rollouts': 'rollouts all',
  [rollout]: 'rollouts all',
  [`${rollout}/pause`]: 'rollouts all',
  [`${rollout}/resume`]: 'rollouts all',
  [`${rollout}/approve`]: 'rollouts all',
  [`${rollout}/advance`]: 'rollouts all',
  [`${rollout}/promote`]: 'rollouts all',
  [`${rollout}/rollback`]: 'rollouts all',
  [`${rollout}/notes`]: 'rollouts all',
  [`${rollout}/events`]: 'rollouts all',
  [`${rollout}/report`]: 'rollouts all',
  [`${m}/labels`]: 'rollouts model',
  [`${m}/labels/{label}/infer`]: 'inference model',
  '/v2/faults': 'rollouts all',
  '/v2/faults/{fault}/cancel': 'rollouts all',
  [`${m}/feedback`]: 'rollouts model',
  '/v2/access/me': 'metadata self',
  '/v2/access/usage': 'metadata self',
  '/v2/alerts': 'alerts all',
  '/v2/cost': 'access all',
  // To make one needs the right to the model in its body as well.
  '/v2/jobs': 'jobs all',
  '/v2/jobs/{job}': 'jobs all',
  '/v2/jobs/{job}/cancel': 'jobs all',
  '/v2/jobs/{job}/output': 'jobs all',
  '/v2/jobs/{job}/pause': 'jobs all',
  '/v2/jobs/{job}/resume': 'jobs all',
  '/v2/access/keys': 'access all',
  '/v2/access/keys/{key}/revoke': 'access all',
  '/v2/access/keys/{key}/rotate': 'access all',
}

const otherPorts: Readonly<Record<string, Readonly<Record<string, Rule>>>> = {
  metrics: { '/metrics': 'metrics some', '/metrics/': 'metrics some', '*': 'metrics some' },
  sagemaker: {
    '/ping': 'health some',
    '/invocations': 'inference some',
    '/models[/]': 'model-repository all',
    '/models/{key}': 'model-repository all',
    '/models/{key}/invoke': 'inference some',
    '*': 'metadata some',
  },
  torchserveInference: {
    '/ping': 'health some',
    '/': 'metadata some',
    '/api-description': 'metadata some',
    ...Object.fromEntries(
      ['', '/{a}', '/{a}/{b}', '/{a}/{b}/{c}', '/{a}/{b}/{c}/{d}', '/{a}/{b}/{c}/{d}/{e}'].map(
        (rest) => [`/predictions/{model}${rest}`, 'inference model'] as const,
      ),
    ),
    '/explanations/{model}': 'inference model',
    '/explanations/{model}/{a}': 'inference model',
    '/explanations/{model}/{a}/{b}': 'inference model',
    '/explanations/{model}/{a}/{b}/{c}': 'inference model',
    '/explanations/{model}/{a}/{b}/{c}/{d}': 'inference model',
    '/explanations/{model}/{a}/{b}/{c}/{d}/{e}': 'inference model',
    '/v1/models/{model}:predict': 'inference model',
    '/v1/models/{model}:explain': 'inference model',
    '/v2/models/{model}/infer': 'inference model',
    '/v2/models/{model}/explain': 'inference model',
    '/invocations': 'inference some',
    '/models/{model}/invoke': 'inference model',
    '/{model}/predict': 'inference model',
    '/{model}/{a}/predict': 'inference model',
    '*': 'metadata some',
  },
  torchserveManagement: {
    '/': 'metadata some',
    '/api-description': 'metadata some',
    '/models': 'model-repository some',
    '/models/{model}': 'model-repository model',
    '/models/{model}/{a}': 'model-repository model',
    '/models/{model}/{a}/set-default': 'model-repository model',
    '/v1/models/{model}': 'health model',
    '*': 'metadata some',
  },
  torchserveMetrics: { '/metrics': 'statistics some', '*': 'metadata some' },
  openAiOwn: {
    '/v1/models': 'metadata some',
    '/v1/models/{model}': 'metadata model',
    '/health': 'health some',
    '/health/ready': 'health some',
    '/metrics': 'metrics some',
    '*': 'metadata some',
  },
  vertexAi: { '/health': 'health some', '/predict': 'inference some', '*': 'metadata some' },
}

const grpcRules: Readonly<Record<string, Rule>> = {
  ServerLive: 'health some',
  ServerReady: 'health some',
  ModelReady: 'health model',
  ServerMetadata: 'metadata some',
  ModelMetadata: 'metadata model',
  ModelConfig: 'model-config model',
  ModelStatistics: 'statistics model',
  TraceSetting: 'trace model',
  LogSettings: 'logging some',
  RepositoryIndex: 'model-repository some',
  RepositoryModelLoad: 'model-repository model',
  RepositoryModelUnload: 'model-repository model',
  SystemSharedMemoryStatus: 'shared-memory some',
  SystemSharedMemoryRegister: 'shared-memory some',
  SystemSharedMemoryUnregister: 'shared-memory some',
  CudaSharedMemoryStatus: 'shared-memory some',
  CudaSharedMemoryRegister: 'shared-memory some',
  CudaSharedMemoryUnregister: 'shared-memory some',
  ModelInfer: 'inference model',
  ModelStreamInfer: 'inference model',
  Check: 'health some',
  Watch: 'health some',
  ServerReflectionInfo: 'metadata some',
  StreamCoreMetrics: 'statistics some',
}

/** TensorFlow Serving's RPCs, where they are allowed. */
const tfservingRules: Readonly<Record<string, Rule>> = {
  Predict: 'inference model',
  Classify: 'inference model',
  Regress: 'inference model',
  MultiInference: 'inference model',
  GetModelMetadata: 'metadata model',
  GetModelStatus: 'health model',
  HandleReloadConfigRequest: 'model-repository model',
}

const part = anyPart()

const { config } = readAccessConfig({ anonymous: {} }, () => null)
const policy = new AccessPolicy(config as AccessConfig, [], () => null)
const only = (action: Action, models: string | null): Rights =>
  new Rights({ allow: [{ action, models: models === null ? null : new NamePattern(models) }], deny: [] })

/** What becomes of a call of a caller who has one right alone. */
function outcome(facts: Parameters<Admission['admit']>[0], rights: Rights | null): string {
  const admission = new AccessAdmission({ clock: new SystemClock(), policy: () => policy, verifyToken: () => Promise.resolve(null) }) // prettier-ignore
  if (rights === null) return reasonOf(admission.admit(facts))
  const known = new AccessPolicy(config as AccessConfig, [], () => null)
  Object.assign(known, { anonymous: makeCaller('api-key', 'k', { rights }) })
  const asKnown = new AccessAdmission({ clock: new SystemClock(), policy: () => known, verifyToken: () => Promise.resolve(null) }) // prettier-ignore
  return reasonOf(asKnown.admit(facts))
}

function reasonOf(verdict: unknown): string {
  const { kind, reason } = verdict as { readonly kind: string; readonly reason?: string }
  return kind === 'refused' ? (reason as string) : 'admitted'
}

function check(what: string, rule: Rule, facts: Parameters<Admission['admit']>[0]): void {
  const [action, scope] = rule.split(' ') as [Action, Scope]
  const isSelf = scope === 'self'
  assert.equal(outcome(facts, null), 'unauthenticated', `${what} without credentials`)
  for (const one of actions) {
    const isEnough = one === action || (scope === 'console' && one === 'console')
    const expected = isSelf || isEnough ? 'admitted' : 'forbidden'
    assert.equal(outcome(facts, only(one, null)), expected, `${what} with '${one}' alone`)
  }
  if (serverActions.has(action) || isSelf) return
  const expected = scope === 'some' || (scope === 'model' && facts.protocol === 'grpc') ? 'admitted' : 'forbidden'
  assert.equal(outcome(facts, only(action, 'other')), expected, `${what} with '${action}@other' alone`)
  if (scope === 'model')
    assert.equal(outcome(facts, only(action, 'x*')), 'admitted', `${what} with '${action}@x*' alone`)
}

function checkRoutes(
  routes: readonly Route[],
  rules: Readonly<Record<string, Rule>>,
  protocol: 'http' | 'metrics',
): void {
  assert.deepEqual(routes.map(({ path }) => path).sort(), Object.keys(rules).sort())
  const router = new Router(routes)
  for (const { path, methods } of routes) {
    const whole = path === '*' ? '/elsewhere' : path.replaceAll(/[[\]]/g, '')
    const targets = new Set([whole, path === '*' ? '/elsewhere' : path.replaceAll(/\[[^\]]*\]/g, '')])
    for (const target of targets) {
      const asked = target.replaceAll('{version}', '1').replaceAll(/\{\w+\}/g, 'x1')
      const match = router.find(asked)
      assert.equal(match?.route.path, path, asked)
      const request = new InjectedRequest({ method: methods[0] ?? 'GET', path: asked }, () => undefined)
      check(asked, rules[path] as Rule, new HttpCallFacts(protocol, match as NonNullable<typeof match>, request))
    }
  }
}

test('every route of the HTTP port asks for its action and no other', () => {
  const routes = httpRoutes(part, defaultOptions().http)
  const isOpen = (route: Route): boolean => route.isOpen === true
  // Pages that hold no secret. A browser has no key when it asks for them.
  assert.deepEqual(routes.filter(isOpen).map(({ path }) => path), ['/', '/console', '/docs', '/console/{asset}']) // prettier-ignore
  checkRoutes(
    routes.filter((route) => !isOpen(route)),
    httpRules,
    'http',
  )
})

test("every route of TensorFlow Serving's REST API asks for its action and no other", () => {
  const places = ['', '/versions/{version}', '/labels/{label}'].map((place) => `/v1/models/{model}${place}`)
  const rules = places.flatMap((place): [string, Rule][] => [
    [place, 'health model'],
    [`${place}/metadata`, 'metadata model'],
    ...['predict', 'classify', 'regress'].map((one): [string, Rule] => [`${place}:${one}`, 'inference model']),
  ])
  checkRoutes(tfservingRoutes(part, defaultOptions().http), Object.fromEntries(rules), 'http')
})

const managing = { allowsModelApi: true, registeredWorkers: 0 }

/** TorchServe takes a slash behind each of its paths. */
const withSlash = (rules: Readonly<Record<string, Rule>> = {}): Record<string, Rule> =>
  Object.fromEntries(Object.entries(rules).map(([path, rule]) => [/^.$/.test(path) ? path : `${path}[/]`, rule]))

test('every route of the other HTTP ports asks for its action and no other', () => {
  checkRoutes(metricsRoutes(part), otherPorts['metrics'] ?? {}, 'metrics')
  const sagemaker = { pingMode: 'ready', inferenceType: 'infer', defaultModel: '', modelRoot: '/' } as const
  checkRoutes(sagemakerRoutes(part, sagemaker), otherPorts['sagemaker'] ?? {}, 'http')
  checkRoutes(inferenceRoutes(part), withSlash(otherPorts['torchserveInference']), 'http')
  checkRoutes(managementRoutes(part, managing), withSlash(otherPorts['torchserveManagement']), 'http')
  checkRoutes(openAiOwnRoutes(part, part), otherPorts['openAiOwn'] ?? {}, 'http')
  checkRoutes(torchserveMetricsRoutes(part), withSlash(otherPorts['torchserveMetrics']), 'http')
  const settings = { healthRoute: '/health', predictRoute: '/predict', defaultModel: 'm' }
  const engine = { wording: part, index: () => [{ name: 'm', state: 'READY' }] }
  const parts = { engine } as unknown as Parameters<typeof vertexAiRoutes>[0]
  checkRoutes(
    vertexAiRoutes(parts, settings as Parameters<typeof vertexAiRoutes>[1]),
    otherPorts['vertexAi'] ?? {},
    'http',
  )
})

test('every RPC of TorchServe asks for its action and no other', () => {
  const { methods } = torchserveInferenceGrpc(part)
  const rules: Readonly<Record<string, Rule>> = {
    Ping: 'health some',
    Predictions: 'inference model',
    StreamPredictions: 'inference model',
    StreamPredictions2: 'inference model',
  }
  const managed = torchserveManagementGrpc(part, managing).methods
  const all = {
    ...rules,
    ...Object.fromEntries(managed.map(({ path }) => [rpcOf(path), 'model-repository model' as const])),
  }
  assert.deepEqual(methods.map(({ path }) => rpcOf(path)), Object.keys(rules)) // prettier-ignore
  for (const { path, api } of [...methods, ...managed]) {
    check(path, all[rpcOf(path)] as Rule, factsOf({ protocol: 'grpc', path, api, action: api, isStream: false }))
  }
})

const rpcOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

test('every RPC asks for its action and no other', () => {
  const rules = { ...grpcRules, ...tfservingRules }
  const parts = anyPart({ tfserving: tfservingFrontEnd(part) })
  const methods = grpcFrontEnds(parts, defaultOptions().grpc).flatMap((frontEnd) => frontEnd.methods)
  assert.deepEqual([...new Set(methods.map(({ path }) => rpcOf(path)))].sort(), Object.keys(rules).sort())
  for (const { path, api, action, isStream } of methods) {
    const facts = factsOf({ protocol: 'grpc', path, api, action: action ?? api, isStream: isStream === true })
    check(path, rules[rpcOf(path) as keyof typeof rules] as Rule, facts)
  }
})

/** A request for the model 'fail': every message has a ModelSpec as its field 1, or a list of tasks that have one. */
function tfservingMessage(rpc: string): Buffer {
  const writer = new ProtobufWriter()
  const spec = (): void => writer.nested(1, () => writer.textField(1, 'fail'))
  if (rpc !== 'MultiInference') spec()
  else {
    writer.nested(1, () => {
      spec()
      writer.textField(2, 'tensorflow/serving/classify')
    })
  }
  return Buffer.from(writer.finish())
}

test('an RPC whose message names a model is compared with the right for that model', async () => {
  const rights = new Rights({ allow: [{ action: '*', models: new NamePattern('other') }], deny: [] })
  const admission: Admission = { admit: () => makeCaller('api-key', 'k', { rights }) }
  await using fixture = await GrpcFixture.start({}, {}, { admission, hasTfserving: true })
  for (const [rpc, rule] of Object.entries(grpcRules)) {
    if (!rule.endsWith(' model') || rpc === 'ModelStreamInfer') continue
    const message: Message = { name: 'fail', model_name: 'fail' }
    const { code, details } = await fixture.call(rpc, message)
    assert.equal(code, 'PERMISSION_DENIED', `${rpc}: ${details}`)
    assert.match(details, /^'k' may not use '[a-z-]+' of model 'fail'/)
  }
  for (const [rpc, rule] of Object.entries(tfservingRules)) {
    if (rpc === 'HandleReloadConfigRequest') continue
    const service = rpc === 'GetModelStatus' ? 'ModelService' : 'PredictionService'
    const { code, details } = await fixture.raw(`/tensorflow.serving.${service}/${rpc}`, tfservingMessage(rpc))
    assert.equal(code, 'PERMISSION_DENIED', `${rpc} (${rule}): ${details}`)
  }
  const { code } = await fixture.call('TraceSetting', {})
  assert.equal(code, 'PERMISSION_DENIED', 'the settings of all models')
})
