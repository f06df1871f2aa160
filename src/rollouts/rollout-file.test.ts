import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parseFileText } from '../base/file-text.ts'
import { readRolloutFile } from './rollout-file.ts'
import type { ExperimentPlan, RolloutPlan } from './rollout-plan.ts'

const whole = `
kind: rollout
candidate: { model: digits_int8, version: 2 }
stable: current
key: [header:X-User-Id, parameter:user_id, principal]
salt: "s"
rules:
  - { when: { header: { X-Canary: { in: [always, "1"] } } }, to: candidate }
  - { when: { group: [staff] }, to: candidate }
  - { when: { country: [NZ, ie] }, weight: 20 }
  - { when: { header: { x-tenant: { prefix: bank- } }, protocol: grpc }, to: stable }
  - { when: { cookie: { beta: { matches: "^on(-[0-9]+)?$" } } }, to: candidate }
steps:
  - { shadow: 10, for: 10m, min_compared: 500 }
  - { weight: 1, for: 10m, min_requests: 200 }
  - { weight: 5.25, for: 30m }
  - { approval: { groups: [ml-leads], not_author: true, timeout: 24h } }
  - { webhook: { url: "https://hooks.example/check", timeout: 30s } }
  - { pause: {} }
  - { pause: { for: 90s } }
  - { weight: 100, bake: 1h }
judge:
  alpha: 0.05
  pass: proven
  metrics:
    errors: { limit: 1% }
    latency_p99: { margin: 20%, at_least_ms: 1 }
    latency_p999:
    score:click: { better: lower, dry_run: true }
    slo: { ms: 200, share: 1% }
    agreement: { min: 99% }
    drift: { output: PROB, bins: [0.1, 0.5] }
    drift:label: { output: LABEL, top1: true, classes: 10 }
    memory: { factor: 2 }
    promql: { query: "up", fail_if: "> 0.01", interval: 30s, failures: 3, on_worse: pause }
  on_stall: advance
compare: { PROB: { close: { rtol: 1e-3, atol: 1e-5 } }, LABEL: exact, TOP: top1, EMBEDDING: { cosine: 0.99 } }
fallback: none
feedback: { output: PROB, kind: top1 }
notify: [{ url: "https://hooks.example/x", events: [rolled_back, paused], secret_env: HOOK_SECRET }]
`

const read = (text: string): ReturnType<typeof readRolloutFile> => {
  const { value, positionOf } = parseFileText(text, 'yaml')
  return readRolloutFile(value, positionOf)
}

/** Line, message and fix of the only problem. */
const problemOf = (text: string): string => {
  const { plan, problems } = read(text)
  assert.equal(plan, null)
  const [problem, ...more] = problems
  assert.deepEqual(more, [])
  assert.ok(problem !== undefined, 'no problem was found')
  return `${problem.position?.line ?? '-'}: ${problem.message}${problem.fix === '' ? '' : `; ${problem.fix}`}`
}

describe('a rollout file', () => {
  test('is read as a whole', () => {
    const { plan, problems } = read(whole)
    assert.deepEqual(problems, [])
    const { rules, steps, judge, key, compare, ...rest } = plan as RolloutPlan
    assert.deepEqual(key, [
      { from: 'header', name: 'x-user-id' },
      { from: 'parameter', name: 'user_id' },
      { from: 'principal' },
    ])
    assert.deepEqual([rules.length, rules[2]?.weight, rules[2]?.when[0]?.fact], [5, 2000, 'country'])
    assert.deepEqual(steps.map((step) => (step.kind === 'weight' ? step.weight : step.kind)), ['shadow', 100, 525, 'approval', 'webhook', 'pause', 'pause', 10_000]) // prettier-ignore
    assert.deepEqual(steps[1], { kind: 'weight', weight: 100, forNs: 600e9, minRequests: 200, isBake: false })
    assert.deepEqual(steps.at(-1), { kind: 'weight', weight: 10_000, forNs: 3600e9, minRequests: 0, isBake: true })
    assert.equal(judge.metrics.length, 10)
    const metric = (name: string): object => judge.metrics.find((rule) => rule.name === name) ?? {}
    assert.deepEqual(metric('latency_p999'), { onWorse: 'rollback', isDryRun: false, test: 'sign', margin: 0.2, atLeast: 1, isHigherWorse: true, name: 'latency_p999', source: 'latency', quantile: 0.999 }) // prettier-ignore
    assert.partialDeepStrictEqual(metric('score:click'), { isDryRun: true, isHigherWorse: true, quantile: null })
    assert.partialDeepStrictEqual(metric('drift'), { bins: [0.1, 0.5], classes: 3 })
    assert.partialDeepStrictEqual(metric('drift:label'), { bins: null, classes: 10, output: 'LABEL' })
    assert.partialDeepStrictEqual(metric('errors'), { limit: 0.01 })
    assert.partialDeepStrictEqual(metric('promql'), { onWorse: 'pause', failIf: { comparison: '>', value: 0.01 } })
    assert.deepEqual({ ...compare }, { PROB: { how: 'close', rtol: 1e-3, atol: 1e-5 }, LABEL: { how: 'exact' }, TOP: { how: 'topk', k: 1 }, EMBEDDING: { how: 'cosine', threshold: 0.99 } }) // prettier-ignore
    assert.partialDeepStrictEqual(rest, { fallback: 'none', candidate: { model: 'digits_int8', version: '2' } })
  })

  test('with nothing but its kind has the usual steps and metrics', () => {
    const { steps, judge, fallback, isExposed } = read('kind: rollout').plan as RolloutPlan
    assert.deepEqual(steps.map((step) => (step.kind === 'weight' ? [step.weight / 100, step.forNs / 60e9] : [])), [[1, 10], [5, 30], [25, 30], [50, 30], [100, 60]]) // prettier-ignore
    assert.deepEqual(judge.metrics.map(({ name }) => name), ['errors', 'latency_p99', 'latency_p50']) // prettier-ignore
    assert.deepEqual([judge.alpha, judge.pass, judge.onStall, fallback, isExposed], [0.05, 'not_worse', 'pause', 'stable', true]) // prettier-ignore
  })

  test('of an experiment has arms and goals', () => {
    const text = `
kind: experiment
arms: [{ name: a, version: 1, weight: 33.34 }, { name: b, version: 2, weight: 33.33 }, { name: c, model: other, weight: 33.33 }]
goals: [score:click, accuracy]
until: 14d
rules: [{ when: { group: staff }, to: c }]`
    const { arms, goals, until } = read(text).plan as ExperimentPlan
    assert.deepEqual(arms.map(({ name, weight }) => [name, weight]), [['a', 3334], ['b', 3333], ['c', 3333]]) // prettier-ignore
    assert.deepEqual([goals, until], [['score:click', 'accuracy'], { afterNs: 14 * 86_400e9 }])
    const moment = read(text.replace('14d', '"2030-01-31T12:00:00Z"')).plan as ExperimentPlan
    assert.deepEqual(moment.until, { wallMs: Date.UTC(2030, 0, 31, 12) })
  })

  test('posted as JSON may have keys of the call', () => {
    const posted = { kind: 'rollout', model: 'm', name: 'n' }
    assert.equal(readRolloutFile(posted, () => null, ['model', 'name']).problems.length, 0)
    assert.equal(readRolloutFile(posted, () => null).problems.length, 2)
  })
})

describe('a mistake names line, key, rule and fix', () => {
  const cases: [name: string, text: string, expected: RegExp][] = [
    ['a list', '- a', /^1: the file must be a mapping of keys to values, got a list of 1; begin with: kind: rollout/],
    ['no kind', 'steps: []', /the file needs the key 'kind'; begin with: kind: rollout/],
    ['another kind', 'kind: canary', /has the kind 'canary', expected rollout or experiment/],
    ['an unknown key', 'kind: rollout\nstepps: []', /^2: 'stepps' is not a key that is known; did you mean 'steps'\?/],
    ['an unknown key inside', 'kind: rollout\njudge: { alpa: 0.1 }', /^2: 'judge.alpa' is not a key.*did you mean 'alpha'/],
    ['a quantile', 'kind: rollout\njudge:\n  metrics:\n    latency_p100: {}', /^4: 'judge.metrics.latency_p100' is not a metric/],
    ['a metric', 'kind: rollout\njudge:\n  metrics:\n    latency_p0: {}', /^4: 'judge.metrics.latency_p0' is not a metric; metrics: errors/],
    ['a key of a metric', 'kind: rollout\njudge: { metrics: { memory: { margin: 1% } } }', /'judge.metrics.memory.margin' is not a key that is known/],
    ['a time', 'kind: rollout\nsteps: [{ weight: 5, for: 10 }]', /'steps.0.for' must be a time, as 90s, 10m, 2h or 7d, got the number 10/],
    ['a long time', 'kind: rollout\ndrain: 999999d', /'drain' must be a time of at most 365d/],
    ['a weight', 'kind: rollout\nsteps: [{ weight: 101 }]', /'steps.0.weight' must be a share from 0 to 100 per cent, got the number 101/],
    ['a weight of nothing', 'kind: rollout\nsteps: [{ weight: 0 }]', /'steps.0.weight' must be above 0; use a shadow step/],
    ['agreement without copies', 'kind: rollout\njudge: { metrics: { agreement: {} } }', /'agreement', which no step compares; add a step/],
    ['decimals', 'kind: rollout\nsteps: [{ weight: 0.001 }]', /with at most two decimals, got the number 0.001/],
    ['weights that fall', 'kind: rollout\nsteps: [{ weight: 5 }, { weight: 1 }]', /'steps.1' has the weight 1 %, below the 5 %/],
    ['two kinds of step', 'kind: rollout\nsteps: [{ weight: 5, shadow: 1 }]', /must have exactly one of .* got weight and shadow/],
    ['a bake below 100', 'kind: rollout\nsteps: [{ weight: 5, bake: 1h }]', /'steps.0' has 'bake' below 100 %; use 'for'/],
    ['no steps', 'kind: rollout\nsteps: []', /'steps' must have a step/],
    ['a share', 'kind: rollout\njudge: { metrics: { errors: { limit: 1 } } }', /must be a share.*write '1%' for 1 per cent/],
    ['alpha', 'kind: rollout\njudge: { alpha: 0 }', /'judge.alpha' must be at least/],
    ['a rule without target', 'kind: rollout\nrules: [{ when: { group: a } }]', /'rules.0' must have either 'to' or 'weight'/],
    ['a rule without condition', 'kind: rollout\nrules: [{ when: {}, to: stable }]', /'rules.0.when' must have a condition/],
    ['a rule to nowhere', 'kind: rollout\nrules: [{ when: { group: a }, to: candidat }]', /one of candidate, stable.*did you mean 'candidate'/],
    ['a pattern', 'kind: rollout\nrules: [{ when: { header: { a: { matches: "(?=x)" } } }, to: stable }]', /'rules.0.when.header.a.matches' is not a regular expression of RE2/],
    ['a number as text', 'kind: rollout\nrules: [{ when: { header: { a: 1 } }, to: stable }]', /must be a list, got the number 1|put it in quotes/],
    ['a country', 'kind: rollout\nrules: [{ when: { country: Ireland }, to: stable }]', /country codes of two letters, got 'IRELAND'/],
    ['a key source', 'kind: rollout\nkey: [user]', /'key.0' must be header:NAME, cookie:NAME/],
    ['a url with a password', 'kind: rollout\nnotify: [{ url: "https://ann:hush@x" }]', /'notify.0.url' must have no user and no password in it/], // prettier-ignore
    ['a url', 'kind: rollout\nnotify: [{ url: "ftp://x" }]', /'notify.0.url' must be an http or https URL/],
    ['an event', 'kind: rollout\nnotify: [{ url: "http://x", events: [rolledback] }]', /did you mean 'rolled_back'/],
    ['a version', 'kind: rollout\ncandidate: newest', /'candidate' must be latest or a version number, got the text 'newest'/],
    ['a signature with parameters', 'kind: rollout\nallow_signature_change: true\nkey: ["parameter:a"]', /must not have 'parameter:'/],
    ['weights of arms', 'kind: experiment\narms: [{ name: a, version: 1, weight: 50 }, { name: b, version: 2, weight: 40 }]\ngoals: accuracy', /'arms' must have weights that add up to 100, got 90/],
    ['one arm', 'kind: experiment\narms: [{ name: a, version: 1, weight: 100 }]\ngoals: accuracy', /must have 2 to 8 arms, got 1/],
    ['a goal', 'kind: experiment\narms: [{ name: a, version: 1, weight: 50 }, { name: b, version: 2, weight: 50 }]\ngoals: [clicks]', /must have accuracy or score:<name>, got 'clicks'/],
    ['a comparison', 'kind: rollout\ncompare: { OUT: { cosine: 2 } }', /'compare.OUT.cosine' must be a number from 0 to 1/],
    ['a slo', 'kind: rollout\njudge: { metrics: { slo: { ms: 5 } } }', /needs 'ms' and 'share'/],
    ['bins', 'kind: rollout\njudge: { metrics: { drift: { output: A, bins: [2, 1] } } }', /needs 'bins' that rise/],
    ['a query', 'kind: rollout\njudge: { metrics: { promql: { query: a, fail_if: "about 3" } } }', /must be a comparison with a number/],
    ['a metric named as a member of objects', 'kind: rollout\njudge: { metrics: { constructor: {} } }', /is not a metric/],
  ] // prettier-ignore
  for (const [name, text, expected] of cases) test(name, () => assert.match(problemOf(text), expected))

  test('several mistakes are reported at once, in the order of the lines', () => {
    const { problems } = read('kind: rollout\nfallback: maybe\nsalt: 5\nkeey: x')
    assert.deepEqual(problems.map(({ position }) => position?.line), [2, 3, 4]) // prettier-ignore
  })

  test('lists have bounds', () => {
    const rules = Array.from({ length: 65 }, () => ({ when: { group: 'a' }, to: 'stable' }))
    const { problems } = readRolloutFile({ kind: 'rollout', rules }, () => null)
    assert.match(problems[0]?.message ?? '', /'rules' must have at most 64 items, got 65/)
  })
})

test('no value makes the reader throw', () => {
  const keys = fc.constantFrom('kind', 'steps', 'judge', 'metrics', 'rules', 'when', 'header', 'weight', 'notify', 'arms', 'errors', 'close', 'compare', 'drift', 'goals', 'key') // prettier-ignore
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      fc.constantFrom('rollout', 'experiment', '5%', '10m', 'errors', 'latest'),
      fc.jsonValue({ maxDepth: 1 }),
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.dictionary(keys, tie('tree'), { maxKeys: 5 }),
    ),
  }))
  fc.assert(
    fc.property(tree, fc.constantFrom('rollout', 'experiment'), (value, kind) => {
      const { plan, problems } = readRolloutFile({ ...(value as object), kind }, () => null)
      assert.equal(plan === null, problems.length > 0)
    }),
    { numRuns: 500 },
  )
})
