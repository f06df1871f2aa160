import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ModelVersionPolicy } from '../config/model-config.ts'
import { absentVersions, isVersionName, selectVersions } from './version-policy.ts'

const policy = (part: Partial<ModelVersionPolicy>): ModelVersionPolicy => ({
  latest: null,
  all: null,
  specific: null,
  ...part,
})
const versions = ['1', '10', '2']

test('without a policy the version with the highest number is served, not the last by alphabet', () => {
  assert.deepEqual(selectVersions(null, versions), ['10'])
})

test('a policy that makes no choice serves all versions, as in Triton', () => {
  assert.deepEqual(selectVersions(policy({}), versions), ['1', '2', '10'])
})

test('latest n takes the n highest, ascending', () => {
  assert.deepEqual(selectVersions(policy({ latest: { numVersions: 2 } }), versions), ['2', '10'])
  assert.deepEqual(selectVersions(policy({ latest: { numVersions: 9 } }), versions), ['1', '2', '10'])
  assert.deepEqual(selectVersions(policy({ latest: { numVersions: 0 } }), versions), [])
})

test('all takes all, specific only those asked for that are there', () => {
  assert.deepEqual(selectVersions(policy({ all: {} }), versions), ['1', '2', '10'])
  const specific = policy({ specific: { versions: [10, 7, 1] } })
  assert.deepEqual(selectVersions(specific, versions), ['1', '10'])
  assert.deepEqual(absentVersions(specific, versions), ['7'])
})

test('a version folder is a whole number without leading zeros that a 64-bit integer holds', () => {
  for (const name of ['0', '1', '20250101', '9223372036854775807']) assert.ok(isVersionName(name), name)
  for (const name of ['00', '007', 'v1', '1.1', '-1', '', '9223372036854775808', 'warmup', '1 ']) {
    assert.ok(!isVersionName(name), name)
  }
})
