import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RequestFacts, VersionChoice } from '../model/choice.ts'
import type { ModelVersion } from '../model/model-version.ts'
import type { RequestHead } from '../model/request-origin.ts'
import { bucketOf, RandomDraws } from './assignment.ts'
import type { KeySource } from './rollout-plan.ts'
import { RolloutArm } from './rollout-arm.ts'
import { rolloutChooser } from './rollout-chooser.ts'
import { RolloutRouter } from './rollout-router.ts'
import type { RoutedRequest } from './routed-request.ts'

type Assigned = { readonly arm: number; readonly bucket: number | null; readonly isJudged: boolean }

const head: RequestHead = { id: 'r', parameters: new Map([['user_id', 7n]]), correlationId: 0n, isSequenceStart: false }

/** `heads` counts how often the head of the body was asked for. */
function choose(options: {
  readonly key?: readonly KeySource[]
  readonly weight?: number
  readonly ready?: readonly string[]
  readonly version?: string
  readonly hasSequences?: boolean
  readonly correlationId?: bigint | string
  readonly heldByCandidate?: string
  readonly heldByOld?: string
  readonly areSequencesOver?: boolean
}): { readonly version: string; readonly assigned: readonly Assigned[]; readonly heads: number } {
  const armNames = ['stable', 'candidate']
  const router = new RolloutRouter(
    { name: 'r1', salt: '', key: options.key ?? [], rules: [], arms: armNames },
    new RandomDraws(1),
  )
  router.setWeight(options.weight ?? 10_000)
  let heads = 0
  const find = (_model: string, version: string): ModelVersion => {
    if (![...(options.ready ?? ['1', '2']), 'old'].includes(version)) throw new Error('not there')
    const config = { sequenceBatching: options.hasSequences === true ? {} : null }
    const holdsSequence = (id: bigint | string): boolean => version === '2' && id === options.heldByCandidate
    return { version, config, state: 'READY', holdsSequence } as unknown as ModelVersion
  }
  const arms = armNames.map((name, i) => new RolloutArm(i, { name, model: 'm', version: String(i + 1) }, '', find))
  const requireSequences = (): void => {
    if (options.areSequencesOver === true) throw new Error('the sequence has ended')
  }
  const rollout = { arms, stable: arms[0], requireSequences } as unknown as Parameters<
    typeof rolloutChooser
  >[0]['rollout']
  const chooser = rolloutChooser({ router, rollout, countryOf: () => 'NZ' })
  const facts: RequestFacts = {
    protocol: 'http',
    api: 'inference',
    path: '/',
    peer: '',
    header: () => null,
    caller: {
      kind: 'anonymous',
      principal: 'p',
      tenant: 'bank',
      groups: [],
      rights: null,
      account: null,
      isBackground: false,
    },
    watch: null,
    head: () => {
      heads++
      return { ...head, correlationId: options.correlationId ?? 0n }
    },
  }
  const model: VersionChoice = {
    name: 'm',
    readyVersions: [],
    find: (version) => find('m', version),
    versionWithSequence: (id) => (id === options.heldByOld ? find('m', 'old') : null),
  }
  const { version } = chooser(facts, options.version ?? '', model)
  const routed = facts.watch as RoutedRequest | null
  const assigned = routed === null ? [] : [{ arm: routed.arm.index, bucket: routed.bucket, isJudged: routed.isJudged }]
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
    assert.deepEqual([version, assigned], ['1', [{ arm: 0, bucket: null, isJudged: false }]])
  })

  test('is assigned by a parameter, the tenant, its caller, or its sequence', () => {
    const bucket = (options: Parameters<typeof choose>[0]): number | null => choose(options).assigned[0]?.bucket ?? null
    assert.equal(bucket({ key: [{ from: 'parameter', name: 'user_id' }] }), bucketOf('r1', '7'))
    assert.equal(bucket({ key: [{ from: 'tenant' }] }), bucketOf('r1', 'bank'))
    assert.equal(bucket({ key: [{ from: 'principal' }] }), bucketOf('r1', 'p'))
    assert.equal(bucket({ hasSequences: true, correlationId: 'talk-1' }), bucketOf('r1', 'talk-1'))
    assert.equal(bucket({ hasSequences: true }), null)
  })

  test('of a sequence goes to the arm that has the sequence, whatever its weight is', () => {
    const options = { hasSequences: true, correlationId: 'talk-1', weight: 0 }
    assert.equal(choose({ ...options, heldByCandidate: 'talk-1' }).version, '2')
    assert.equal(choose({ ...options, heldByCandidate: 'talk-2' }).version, '1')
    assert.deepEqual(choose({ ...options, weight: 10_000, heldByOld: 'talk-1' }).assigned, [])
    assert.equal(choose({ ...options, weight: 10_000, heldByOld: 'talk-1' }).version, 'old')
    assert.equal(choose({ ...options, heldByCandidate: 'talk-1' }).heads, 1)
    assert.equal(choose({ ...options, heldByOld: 'talk-1' }).heads, 1, 'the body is read once')
    const over = { ...options, heldByCandidate: 'talk-1', areSequencesOver: true }
    assert.throws(() => choose(over), /the sequence has ended/)
  })
})
