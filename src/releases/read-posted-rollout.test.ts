import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRolloutFile } from '../rollouts/rollout-file.ts'
import { planOfPosted, readPosted } from './read-posted-rollout.ts'
import type { FoundRolloutFile } from './rollout-files.ts'

const fileOf = (spec: object): FoundRolloutFile => {
  const { plan } = readRolloutFile({ kind: 'rollout', ...spec }, () => null)
  return { plan, spec } as unknown as FoundRolloutFile
}

const arm = (name: string, version: number): object => ({ name, version, weight: 50 })

test('a caller that nobody knows does not make the server call addresses of its own', () => {
  const known = fileOf({ steps: [{ weight: 50, for: '1m' }], notify: [{ url: 'https://hooks.example/x' }] })
  const none = { plan: null, spec: null } as unknown as FoundRolloutFile
  const inside = 'http://169.254.169.254/latest'
  for (const body of [
    { notify: [{ url: inside }], steps: [{ weight: 50, for: '1m' }] },
    { steps: [{ webhook: { url: inside } }, { weight: 50, for: '1m' }] },
    { kind: 'experiment', arms: [arm('a', 1), arm('b', 2)], goals: ['score:click'], notify: [{ url: inside }] },
  ]) {
    const posted = readPosted({ model: 'm', ...body })
    for (const file of [known, none]) {
      assert.throws(() => planOfPosted(posted, file, false), /does not call 'http:\/\/169.*--access-config/)
    }
    assert.ok(planOfPosted(posted, none, true).plan !== null)
  }
  assert.equal(planOfPosted(readPosted({ model: 'm' }), known, false).plan.notify.length, 1)
})
