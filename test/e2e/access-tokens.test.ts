// Tokens of a real issuer (oidc-provider) in front of a real server, and tokens that must not pass.

import assert from 'node:assert/strict'
import { generateKeyPair, SignJWT } from 'jose'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { SystemClock } from '../../src/base/clock.ts'
import { TokenVerifier } from '../../src/access/token-verifier.ts'
import { accessFolder, inferBody } from './access-fixture.ts'
import { startOidcIssuer } from './oidc-issuer.ts'
import { startServerProcess } from './server-process.ts'

const now = (): number => Math.floor(Date.now() / 1000)

test('a token of the issuer opens what its groups allow, and no other token opens anything', async (t) => {
  const issuer = await startOidcIssuer()
  t.after(() => issuer.close())
  const rules = `
jwt:
  - { issuer: "${issuer.url}", audience: galatea, jwks: "${issuer.jwks}", algorithms: [RS256], groups: groups, tenant: org }
roles:
  lead: { allow: [inference] }
grants:
  - { to: { group: ml-leads }, role: lead }
`
  const folder = await accessFolder(rules, ['m'])
  t.after(() => folder.remove())
  const server = await startServerProcess(folder.flags)
  t.after(() => server.stop())
  const infer = async (token: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token}` }
    return (await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', body: inferBody(), headers })).status
  }
  const token = await issuer.token()
  for (let i = 0; i < 5; i++) assert.equal(await infer(token), 200)
  assert.equal(issuer.keyReads, 1)
  const me = await fetch(`${server.url}/v2/access/me`, { headers: { authorization: `Bearer ${token}` } })
  const { principal, tenant, groups } = (await me.json()) as Record<string, unknown>
  assert.deepEqual([principal, tenant, groups], [`robot@${new URL(issuer.url).host}`, 'acme', ['ml-leads']])

  const good = { iss: issuer.url, aud: 'galatea', sub: 'ann', exp: now() + 60, groups: ['ml-leads'] }
  assert.equal(await infer(await issuer.sign(good)), 200)
  const { exp: _exp, ...endless } = good
  const { sub: _sub, ...nameless } = good
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const foreign = await generateKeyPair('RS256')
  const bad: Readonly<Record<string, string>> = {
    'another audience': await issuer.token('other'),
    expired: await issuer.sign({ ...good, exp: now() - 60 }),
    'not yet': await issuer.sign({ ...good, nbf: now() + 600 }),
    endless: await issuer.sign(endless),
    nameless: await issuer.sign(nameless),
    'another issuer': await issuer.sign({ ...good, iss: 'https://elsewhere.example' }),
    'alg none': `${part({ alg: 'none' })}.${part(good)}.`,
    'a key of its own': await new SignJWT(good)
      .setProtectedHeader({ alg: 'RS256', kid: 'key-1' })
      .sign(foreign.privateKey),
    'a secret for a key': await new SignJWT(good)
      .setProtectedHeader({ alg: 'HS256', kid: 'key-1' })
      .sign(Buffer.alloc(32)),
    'a changed claim': ((signed: string) => [signed.split('.')[0], part({ ...good, sub: 'bob' }), signed.split('.')[2]].join('.'))(await issuer.sign(good)), // prettier-ignore
    malformed: 'a.b.c',
    huge: await issuer.sign({ ...good, padding: 'x'.repeat(9000) }),
  }
  for (const [what, wrong] of Object.entries(bad)) assert.equal(await infer(wrong), 401, what)
  assert.equal(await infer(await issuer.sign({ ...good, groups: ['others'] })), 403)
})

test('keys are exchanged while tokens are verified, and an issuer that is away is no reason to refuse', async (t) => {
  const issuer = await startOidcIssuer()
  t.after(() => issuer.close().catch(() => undefined))
  const rules = {
    issuer: issuer.url,
    audience: ['galatea'],
    jwks: issuer.jwks,
    algorithms: ['RS256'],
    groups: '',
    tenant: '',
  }
  const verifier = await TokenVerifier.open({ clock: new SystemClock(), log: silentLog, cooldownMs: 0 }, [rules])
  assert.ok(verifier !== null)
  const first = await issuer.token()
  assert.ok((await verifier.verify(first)) !== null)
  await issuer.rotate()
  const second = await issuer.token()
  assert.ok((await verifier.verify(second)) !== null)
  assert.equal(await verifier.verify(first), null)
  await issuer.close()
  assert.ok((await verifier.verify(second)) !== null)
})
