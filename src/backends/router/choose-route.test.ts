import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { noOrigin, type RequestOrigin } from '../../model/request-origin.ts'
import { AskedFacts } from '../../rollouts/asked-facts.ts'
import { chooseRoute, type RouteNumbers } from './choose-route.ts'
import { readRouteFile, type RoutePlan } from './route-plan.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'galatea-route-'))
after(() => rmSync(folder, { recursive: true }))

async function read(text: string): ReturnType<typeof readRouteFile> {
  const file = path.join(folder, 'route.yaml')
  writeFileSync(file, text)
  return readRouteFile(file, 'chat')
}

const route = (
  plan: RoutePlan | null,
  numbers: Partial<RouteNumbers> = {},
  origin: Partial<RequestOrigin> = {},
): string | null =>
  chooseRoute(plan as RoutePlan, new AskedFacts(() => '').of({ ...noOrigin, ...origin }, false), {
    maxTokens: null,
    promptTokens: null,
    bucket: () => 5000,
    ...numbers,
  })

test('the first rule that fits decides, and prompts are counted only where that is needed', async () => {
  const { plan, problems } = await read(`models: [small, large]
rules:
  - { when: { header: { x-tier: gold } }, to: large }
  - { when: { protocol: grpc, prompt_tokens: { above: 100, below: 200 } }, to: large }
  - { when: { max_tokens: { above: 50 } }, to: large }
`)
  assert.deepEqual(problems, [])
  assert.equal(route(plan), 'small')
  assert.equal(route(plan, {}, { header: () => 'gold' }), 'large')
  assert.equal(route(plan, { maxTokens: 51 }), 'large')
  assert.deepEqual([route(plan, { maxTokens: 50 }), route(plan, { maxTokens: NaN })], ['small', 'small'])
  const grpc = { protocol: 'grpc' } as const
  assert.equal(route(plan, {}, grpc), null)
  assert.deepEqual([100, 101, 199, 200].map((promptTokens) => route(plan, { promptTokens }, grpc)), ['small', 'large', 'large', 'small']) // prettier-ignore
})

test('a weight takes its share of the requests that its rule fits', async () => {
  const { plan } = await read('models: [small, large]\nrules: [{ weight: 20%, to: large }]')
  assert.deepEqual([0, 1999, 2000, 9999].map((bucket) => route(plan, { bucket: () => bucket })), ['large', 'large', 'small', 'small']) // prettier-ignore
})

test('what is wrong with a file is told with its line', async () => {
  const wrong: readonly (readonly [string, RegExp])[] = [
    ['models: [small]', /^'models' must name two models or more, got 1/],
    ['models: [a, a]', /must not name a model twice/],
    ['models: [a, chat]', /must not name the router itself, 'chat'/],
    ['models: [a, b]\nrules: [{ to: b }]', /must have 'when' or 'weight'/],
    ['models: [a, b]\nrules: [{ when: {}, to: b }]', /must have a condition/],
    ['models: [a, b]\nrules: [{ when: { prompt_tokens: 8 }, to: b }]', /must be a mapping/],
    ['models: [a, b]\nrules: [{ when: { max_tokens: {} }, to: b }]', /must have 'above' or 'below'/],
    ['models: [a, b]\nrules: [{ when: { country: DE }, to: b }]', /a router does not know it/],
    ['models: [a, b]\ntokenizer: c', /'tokenizer' must be one of a, b/],
    ['models: [a, b', /it is not YAML/],
    [`models: [a, b]\n#${'x'.repeat(70_000)}`, /has 70016 bytes, at most 65536 are read/],
    [`models: [${Array.from({ length: 9 }, (_, i) => `m${i}`).join()}]`, /must have at most 8 items, got 9/],
    [`models: [a, b]\nrules:${'\n  - { weight: 1, to: b }'.repeat(65)}`, /must have at most 64 items, got 65/],
  ]
  assert.match((await readRouteFile('/dev/zero', 'chat')).problems[0]?.message ?? '', /it is no file/)
  for (const [text, message] of wrong) {
    const { plan, problems } = await read(text)
    assert.equal(plan, null)
    assert.match(problems[0]?.message ?? '', message)
  }
})
