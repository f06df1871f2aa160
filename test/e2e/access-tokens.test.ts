// Tokens of a real issuer (oidc-provider) in front of a real server, and tokens that must not pass.

import assert from 'node:assert/strict'
import { generateKeyPair, SignJWT } from 'jose'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { SystemClock } from '../../src/base/clock.ts'
import { TokenVerifier } from '../../src/access/token-verifier.ts'
import { until } from '../until.ts'
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

test('a step of a rollout is approved by a group of its list, and not by the author', async (t) => {
  const issuer = await startOidcIssuer()
  t.after(() => issuer.close())
  const rules = `
jwt:
  - { issuer: "${issuer.url}", audience: galatea, jwks: "${issuer.jwks}", algorithms: [RS256], groups: groups }
roles:
  releaser: { allow: [rollouts] }
grants:
  - { to: { group: ml-leads }, role: releaser }
  - { to: { group: engineers }, role: releaser }
`
  const folder = await accessFolder(rules, ['m'])
  t.after(() => folder.remove())
  await mkdir(path.join(folder.root, 'models/m/2'))
  const server = await startServerProcess([...folder.flags, `--state-dir=${folder.root}/state`])
  t.after(() => server.stop())
  const tokenOf = (sub: string, ...groups: string[]): Promise<string> =>
    issuer.sign({ iss: issuer.url, aud: 'galatea', sub, exp: now() + 600, groups })
  const [ann, bob, eve, joe] = [
    await tokenOf('ann', 'ml-leads', 'engineers'),
    await tokenOf('bob', 'ml-leads'),
    await tokenOf('eve', 'engineers'),
    await tokenOf('joe', 'others'),
  ]
  type Told = { readonly status: number; readonly body: Readonly<Record<string, unknown>> }
  const tell = async (token: string, way: string, body: object | null = {}): Promise<Told> => {
    const headers = token === '' ? {} : { authorization: `Bearer ${token}` }
    const method = body === null ? 'GET' : 'POST'
    const answer = await fetch(server.url + way, { method, headers, body: body === null ? null : JSON.stringify(body) })
    return { status: answer.status, body: (await answer.json()) as Told['body'] }
  }
  const steps = [{ approval: { groups: ['ml-leads'], not_author: true, timeout: '1h' } }, { weight: 1, for: '1h' }]
  const posted = { model: 'm', name: 'r', stable: 1, candidate: 2, judge: { metrics: { errors: {} } }, steps }
  assert.equal((await tell('', '/v2/rollouts', posted)).status, 401)
  assert.equal((await tell(joe, '/v2/rollouts', posted)).status, 403)
  const made = await tell(ann, '/v2/rollouts', posted)
  assert.equal(made.status, 201, JSON.stringify(made.body))
  let seen: Told | null = null
  const isPaused = async (): Promise<boolean> => {
    seen = await tell(bob, '/v2/rollouts/r', null)
    return seen.body['state'] === 'PAUSED' && seen.body['pause_reason'] === 'approval'
  }
  await until(isPaused, 'a step that waits for its approval', { seen: () => JSON.stringify(seen) })
  const approve = (token: string): Promise<Told> => tell(token, '/v2/rollouts/r/approve', { reason: 'seen' })
  assert.equal((await approve('')).status, 401)
  assert.equal((await approve(joe)).status, 403)
  const [ofEve, ofAnn] = [await approve(eve), await approve(ann)]
  assert.deepEqual([ofEve.status, ofAnn.status], [409, 409])
  assert.match(String(ofEve.body['error']), /'eve@[^']+', who is not in the group ml-leads/)
  assert.match(String(ofAnn.body['error']), /'ann@[^']+', who created it/)
  for (const way of ['advance', 'promote', 'resume'])
    assert.equal((await tell(bob, `/v2/rollouts/r/${way}`)).status, 409)
  assert.equal((await approve(bob)).status, 200)
  const after = await tell(bob, '/v2/rollouts/r', null)
  assert.equal(after.body['state'], 'RUNNING')
  assert.match(JSON.stringify(after.body['history']), /bob@/)
})
