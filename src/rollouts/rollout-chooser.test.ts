import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RequestFacts, RequestHead, VersionChoice } from '../model/choice.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { bucketOf, RandomDraws } from './assignment.ts'
import type { KeySource } from './rollout-plan.ts'
import { rolloutChooser } from './rollout-chooser.ts'
import { RolloutRouter, type Assignment } from './rollout-router.ts'

const head: RequestHead = { id: 'r', parameters: new Map([['user_id', 7n]]), correlationId: 0n }

/** `heads` counts how often the head of the body was asked for. */
function choose(options: {
  readonly key?: readonly KeySource[]
  readonly weight?: number
  readonly ready?: readonly string[]
  readonly version?: string
  readonly hasSequences?: boolean
  readonly correlationId?: bigint | string
}): { readonly version: string; readonly assigned: readonly Assignment[]; readonly heads: number } {
  const arms = ['stable', 'candidate']
  const router = new RolloutRouter(
    { name: 'r1', salt: '', key: options.key ?? [], rules: [], arms },
    new RandomDraws(1),
  )
  router.setWeight(options.weight ?? 10_000)
  const assigned: Assignment[] = []
  let heads = 0
  const chooser = rolloutChooser({
    router,
    versions: ['1', '2'],
    hasSequences: options.hasSequences ?? false,
    traitsOf: () => ({ groups: [], tenant: 'bank' }),
    countryOf: () => 'NZ',
    onAssigned: (_, assignment) => assigned.push(assignment),
  })
  const facts: RequestFacts = {
    protocol: 'http',
    api: 'inference',
    path: '/',
    peer: '',
    header: () => null,
    caller: { kind: 'anonymous', principal: 'p', tenant: '', groups: [], rights: null },
    head: () => {
      heads++
      return { ...head, correlationId: options.correlationId ?? 0n }
    },
  }
  const model: VersionChoice = {
    name: 'm',
    readyVersions: options.ready ?? ['1', '2'],
    find: (version) => ({ version }) as unknown as ModelVersion,
  }
  const { version } = chooser(facts, options.version ?? '', model) as unknown as { readonly version: string }
  return { version, assigned, heads }
}

describe('a request', () => {
  test('that names a version is not touched', () => {
    const { version, assigned } = choose({ version: '1' })
    assert.deepEqual([version, assigned], ['1', []])
  })

  test('goes to the arm of its weight, and its body is not read for that', () => {
    assert.deepEqual([choose({}).version, choose({ weight: 0 }).version, choose({}).heads], ['2', '1', 0])
  })

  test('goes to stable while the candidate is not ready, and is not judged', () => {
    const { version, assigned } = choose({ ready: ['1'] })
    assert.deepEqual([version, assigned], ['1', [{ arm: 0, bucket: null, isForced: true }]])
  })

  test('is assigned by a parameter, the tenant, its caller, or its sequence', () => {
    const bucket = (options: Parameters<typeof choose>[0]): number | null => choose(options).assigned[0]?.bucket ?? null
    assert.equal(bucket({ key: [{ from: 'parameter', name: 'user_id' }] }), bucketOf('r1', '7'))
    assert.equal(bucket({ key: [{ from: 'tenant' }] }), bucketOf('r1', 'bank'))
    assert.equal(bucket({ key: [{ from: 'principal' }] }), bucketOf('r1', 'p'))
    assert.equal(bucket({ hasSequences: true, correlationId: 'talk-1' }), bucketOf('r1', 'talk-1'))
    assert.equal(bucket({ hasSequences: true }), null)
  })
})
