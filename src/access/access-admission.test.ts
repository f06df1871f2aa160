import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseFileText } from '../base/file-text.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { factsOf } from '../../test/fakes/admission-facts.ts'
import { AccessAdmission } from './access-admission.ts'
import { readAccessConfig, type AccessConfig } from './access-config.ts'
import { AccessPolicy } from './access-policy.ts'
import type { AdmissionFacts } from './admission-facts.ts'
import type { Verdict } from './admission.ts'
import { apiKeyText, createApiKey, secretHash } from './api-key.ts'
import type { KeyRecord } from './key-file.ts'

const rules = `
anonymous: { allow: [health] }
roles:
  caller: { allow: ["inference@vision-*", "metadata"], deny: ["inference@vision-secret"] }
grants:
  - { to: { key: "web-*" }, role: caller, tenant: web }
trusted_proxies: [10.0.0.0/8]
`

function configOf(text: string): AccessConfig {
  const { value, positionOf } = parseFileText(text, 'yaml')
  const { config, problems } = readAccessConfig(value, positionOf)
  assert.deepEqual(problems, [])
  return config as AccessConfig
}

const key = createApiKey()
const record: KeyRecord = {
  id: key.id,
  name: 'web-1',
  hash: secretHash(key.secret).toString('hex'),
  role: '',
  tenant: '',
  addresses: [],
  createdMs: 0,
  expiresMs: null,
  revokedMs: null,
}

function admissionUnderTest(records: readonly KeyRecord[] = [record]): {
  clock: ManualClock
  setKeys: (keys: readonly KeyRecord[]) => void
  admit: (given: Partial<AdmissionFacts>, headers?: Readonly<Record<string, string>>) => Verdict
  renew: (facts: AdmissionFacts) => Verdict
} {
  const clock = new ManualClock()
  const policyOf = (keys: readonly KeyRecord[]): AccessPolicy => new AccessPolicy(configOf(rules), keys, () => null)
  let policy = policyOf(records)
  const admission = new AccessAdmission({ clock, policy: () => policy, verifyToken: () => Promise.resolve(null) })
  return {
    clock,
    setKeys: (keys) => void (policy = policyOf(keys)),
    admit: (given, headers = {}) =>
      admission.admit(factsOf({ header: (name) => headers[name] ?? null, ...given })) as Verdict,
    renew: (facts) => admission.renew(facts) as Verdict,
  }
}

test('the right console opens what the console watches, but for what is denied', () => {
  const clock = new ManualClock()
  const text =
    'roles: { watcher: { allow: [console], deny: [logging] } }\ngrants: [{ to: { key: "web-*" }, role: watcher }]\n'
  const policy = new AccessPolicy(configOf(text), [record], () => null)
  const admission = new AccessAdmission({ clock, policy: () => policy, verifyToken: () => Promise.resolve(null) })
  const kindOf = (given: Partial<AdmissionFacts>): string =>
    (admission.admit(factsOf({ isForAll: true, header: (name) => (name === 'authorization' ? withKey.authorization : null), ...given })) as Verdict).kind // prettier-ignore
  assert.equal(kindOf({ action: 'statistics', isOfConsole: true }), 'api-key')
  assert.equal(kindOf({ action: 'statistics' }), 'refused')
  assert.equal(kindOf({ action: 'logging', isOfConsole: true }), 'refused')
})

const withKey = { authorization: `Bearer ${apiKeyText(key)}` }
const infer = (model: string): Partial<AdmissionFacts> => ({ api: 'inference', action: 'inference', model })
const reasonOf = (verdict: Verdict): string => (verdict.kind === 'refused' ? verdict.reason : 'admitted')

test('a caller may do what its role allows to the models that the role names, and denials win', () => {
  const { admit } = admissionUnderTest()
  const caller = admit(infer('vision-a'), withKey)
  assert.ok(caller.kind === 'api-key')
  assert.deepEqual([caller.principal, caller.tenant, caller.groups], ['web-1', 'web', ['caller']])
  assert.deepEqual(
    ['vision-secret', 'other', 'vision-'].map((model) => reasonOf(admit(infer(model), withKey))),
    ['forbidden', 'forbidden', 'admitted'],
  )
  assert.equal(reasonOf(admit({ action: 'model-repository' }, withKey)), 'forbidden')
  assert.equal(reasonOf(admit({ action: 'inference', isForAll: true }, withKey)), 'forbidden')
  assert.equal(reasonOf(admit({ action: 'metadata', isForAll: true }, withKey)), 'admitted')
  assert.equal(reasonOf(admit({})), 'admitted')
  assert.equal(reasonOf(admit(infer('vision-a'))), 'unauthenticated')
})

test('a key that is revoked or expired stops at once, also on a connection that is known', () => {
  const { admit, clock, setKeys } = admissionUnderTest([{ ...record, expiresMs: 1_700_000_060_000 }])
  const head = {}
  assert.equal(reasonOf(admit({ ...infer('vision-a'), head }, withKey)), 'admitted')
  clock.advanceUs(59e6)
  assert.equal(reasonOf(admit({ ...infer('vision-a'), head }, withKey)), 'admitted')
  clock.advanceUs(1e6)
  assert.equal(reasonOf(admit({ ...infer('vision-a'), head }, withKey)), 'unauthenticated')
  setKeys([record])
  assert.equal(reasonOf(admit({ ...infer('vision-a'), head }, withKey)), 'admitted')
  setKeys([{ ...record, revokedMs: 1 }])
  assert.equal(reasonOf(admit({ ...infer('vision-a'), head }, withKey)), 'unauthenticated')
})

test('a key that is bound to addresses works from there only, and a trusted proxy says where a call is from', () => {
  const { admit } = admissionUnderTest([{ ...record, addresses: ['192.0.2.0/24'] }])
  const from = (peer: string, forwarded = ''): string =>
    reasonOf(admit({ ...infer('vision-a'), peer }, { ...withKey, 'x-forwarded-for': forwarded }))
  assert.equal(from('192.0.2.7'), 'admitted')
  assert.equal(from('::ffff:192.0.2.7'), 'admitted')
  assert.equal(from('198.51.100.1'), 'unauthenticated')
  assert.equal(from('10.0.0.1', '192.0.2.9'), 'admitted')
  assert.equal(from('10.0.0.1', '192.0.2.9, 198.51.100.1'), 'unauthenticated')
  assert.equal(from('198.51.100.2', '192.0.2.9'), 'unauthenticated')
})

test('after 20 wrong credentials in a minute an address is refused, and a caller who is known goes on', () => {
  const { admit, clock } = admissionUnderTest()
  const wrong = (n: number): string => reasonOf(admit({ peer: '192.0.2.1' }, { 'x-api-key': `wrong ${n}` }))
  const other = createApiKey()
  assert.equal(reasonOf(admit({ ...infer('vision-a'), peer: '192.0.2.1' }, withKey)), 'admitted')
  const outcomes = Array.from({ length: 21 }, (_, n) => wrong(n))
  assert.deepEqual(outcomes, [...Array.from({ length: 20 }, () => 'unauthenticated'), 'exhausted'])
  assert.equal(reasonOf(admit({ ...infer('vision-a'), peer: '192.0.2.1' }, withKey)), 'admitted')
  assert.equal(reasonOf(admit({ peer: '192.0.2.2' }, { 'x-api-key': apiKeyText(other) })), 'unauthenticated')
  clock.advanceUs(3e6)
  assert.equal(wrong(22), 'unauthenticated')
})

test('a call that lasts is told when its key is revoked, and a thousand such calls lock no address out', () => {
  const { admit, renew, setKeys, clock } = admissionUnderTest()
  const header = (name: string): string | null => withKey[name as keyof typeof withKey] ?? null
  const calls = Array.from({ length: 1000 }, () => factsOf({ ...infer(''), header, peer: '192.0.2.1', head: {} }))
  for (const facts of calls) assert.equal(reasonOf(renew(facts)), 'admitted')
  clock.advanceMs(400_000)
  assert.equal(reasonOf(renew(calls[0] as AdmissionFacts)), 'admitted', 'what is remembered is not needed')
  setKeys([{ ...record, revokedMs: 1 }])
  for (const facts of calls) assert.equal(reasonOf(renew(facts)), 'unauthenticated')
  assert.equal(reasonOf(admit({ peer: '192.0.2.1' }, { 'x-api-key': 'wrong' })), 'unauthenticated')
})

test('a credential of more than 8 KiB is refused before anything looks at it', () => {
  const { admit } = admissionUnderTest()
  const long = `${'a'.repeat(4096)}.${'b'.repeat(4096)}.c`
  assert.equal(reasonOf(admit({}, { authorization: `Bearer ${long}` })), 'unauthenticated')
})

test('no header but the key itself makes a caller, and none makes the admission fail', () => {
  const text = apiKeyText(key)
  const at = fc.nat(text.length - 1)
  const changed = fc.tuple(at, fc.string({ minLength: 1, maxLength: 1 })).map(([i, char]) => text.slice(0, i) + char + text.slice(i + 1)) // prettier-ignore
  const base64 = (pair: string): string => Buffer.from(pair).toString('base64')
  const value = fc.oneof(
    changed,
    fc.string({ maxLength: 300 }),
    at.map((i) => text.slice(0, i)),
    fc.constantFrom(`${text}x`, `${text} ${text}`, `${text}\n`, `gal_${key.id}_`, key.secret, 'x'.repeat(9000), `gal_${'_'.repeat(54)}`), // prettier-ignore
  )
  const header = fc.tuple(fc.constantFrom('Bearer ', 'bearer  ', 'Basic ', 'Digest ', '', 'Bearer'), value).map(([scheme, one]) => scheme + one) // prettier-ignore
  const basic = fc.tuple(fc.constantFrom(key.id, `gal_${key.id}`, 'root', ''), value).map(([user, one]) => `Basic ${base64(`${user}:${one}`)}`) // prettier-ignore
  fc.assert(
    fc.property(fc.constantFrom('authorization', 'x-api-key'), fc.oneof(header, basic), (name, sent) => {
      const bare = sent.replace(/^bearer +/i, '').trim()
      if (bare === text || sent.trim() === '') return
      const isOfBasic = sent.startsWith('Basic ') && Buffer.from(sent.slice(6), 'base64').toString('latin1').includes(key.secret) // prettier-ignore
      if (isOfBasic) return
      const { admit } = admissionUnderTest()
      const verdict = admit({ action: 'metadata', api: 'metadata' }, { [name]: sent }) as Verdict | Promise<Verdict>
      // Three parts with dots are taken for a token, which nobody here has signed.
      if (!(verdict instanceof Promise)) assert.equal(verdict.kind, 'refused', sent)
    }),
    { numRuns: 500 },
  )
})
