import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anonymous, makeCaller } from '../access/caller.ts'
import { NamePattern } from '../access/name-pattern.ts'
import { Rights } from '../access/rights.ts'
import { servedNames } from './served-names.ts'

test('a model with several versions has one name, and callers are told those for which they have the right', () => {
  const engine = { models: () => ['b', 'b', 'vision-a'].map((name) => ({ name })) }
  assert.deepEqual(servedNames(engine, anonymous, 'inference'), ['b', 'vision-a'])
  const allow = [{ action: 'inference' as const, models: new NamePattern('vision-*') }]
  const caller = makeCaller('api-key', 'k', { rights: new Rights({ allow, deny: [] }) })
  assert.deepEqual(servedNames(engine, caller, 'inference'), ['vision-a'])
  assert.deepEqual(servedNames(engine, caller, 'metadata'), [])
})
