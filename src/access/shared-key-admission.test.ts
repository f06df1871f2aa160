import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Verdict } from './admission.ts'
import type { ApiName } from './api-name.ts'
import { anonymous, makeCaller } from './caller.ts'
import { factsOf } from '../../test/fakes/admission-facts.ts'
import { sharedKeyAdmission, type RestrictedApis } from './shared-key-admission.ts'

/** `headers` are as a port finds them: by name in lower case. */
function admit(
  port: 'http' | 'grpc',
  groups: readonly RestrictedApis[],
  api: ApiName,
  headers: Readonly<Record<string, string>> = {},
): Verdict {
  const header = (name: string): string | null => headers[name] ?? null
  return sharedKeyAdmission(port, groups)?.admit(factsOf({ protocol: port, api, action: api, header })) as Verdict
}

const groups = [
  { apis: ['inference', 'model-config'], key: 'Admin-Key', value: 'secret' },
  { apis: ['logging'], key: 'log', value: 'l' },
]

test('a restricted API wants its header with exactly its value, and the caller is named after the header', () => {
  const named = makeCaller('shared-key', 'Admin-Key')
  assert.deepEqual(admit('http', groups, 'inference', { 'admin-key': 'secret' }), named)
  for (const headers of [{}, { 'admin-key': '' }, { 'admin-key': 'secret ' }, { 'admin-key': 'Secret' }]) {
    const verdict = admit('http', groups, 'inference', headers)
    assert.ok(verdict.kind === 'refused')
    assert.equal(verdict.message, "This API is restricted, expecting header 'Admin-Key'")
  }
  assert.ok(admit('http', groups, 'inference', { log: 'secret' }).kind === 'refused')
})

test('over gRPC the header has a prefix, and the text speaks of protocols', () => {
  const header = 'triton-grpc-protocol-Admin-Key'
  assert.deepEqual(
    admit('grpc', groups, 'inference', { [header.toLowerCase()]: 'secret' }),
    makeCaller('shared-key', header),
  )
  const verdict = admit('grpc', groups, 'inference', { 'admin-key': 'secret' })
  assert.ok(verdict.kind === 'refused')
  assert.equal(verdict.message, `This protocol is restricted, expecting header '${header}'`)
})

test('what is not restricted needs no header, and without restrictions there is no admission to ask', () => {
  assert.equal(admit('http', groups, 'health'), anonymous)
  assert.equal(sharedKeyAdmission('http', []), null)
})

test('an unknown API and one in two groups are refused at start, in the words of the flag', () => {
  const group = { apis: ['health'], key: 'a', value: 'b' }
  assert.throws(() => sharedKeyAdmission('http', [{ ...group, apis: ['everything'] }]), {
    message: /unknown restricted api 'everything' in --http-restricted-api, expected one of: health, metadata/,
  })
  assert.throws(() => sharedKeyAdmission('grpc', [{ ...group, apis: ['nope'] }]), {
    message: /unknown restricted protocol 'nope' in --grpc-restricted-protocol/,
  })
  assert.throws(() => sharedKeyAdmission('http', [group, { ...group, key: 'c' }]), {
    message:
      /restricted api 'health' can not be specified in multiple config groups: name it in one --http-restricted-api only/,
  })
})
