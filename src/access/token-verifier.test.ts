import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import fc from 'fast-check'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, type JWK } from 'jose'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import type { TokenIssuer } from './access-config.ts'
import { TokenVerifier } from './token-verifier.ts'

const issuer = 'https://idp.example'
const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
const jwk: JWK = { ...(await exportJWK(publicKey)), kid: 'key-1', alg: 'ES256' }

/** Keys over HTTP, and a verifier that reads them anew for every token, unless the server was away just now. */
async function verifierUnderTest(t: TestContext): Promise<{
  verifier: TokenVerifier
  clock: ManualClock
  log: MemoryLog
  server: { status: number; reads: number; keys: readonly JWK[] }
  rules: TokenIssuer
  token: (header?: object, claims?: object) => Promise<string>
}> {
  const server = { status: 200, reads: 0, keys: [jwk] as readonly JWK[] }
  const http = createServer((_request, response) => {
    server.reads++
    response.writeHead(server.status, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: server.keys }))
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  t.after(() => http.close())
  const jwks = `http://127.0.0.1:${(http.address() as AddressInfo).port}/jwks`
  const [clock, log] = [new ManualClock(), new MemoryLog()]
  const rules = { issuer, audience: ['galatea'], jwks, algorithms: ['ES256'], groups: '', tenant: '' }
  const verifier = await TokenVerifier.open({ clock, log, cooldownMs: 1000, freshMs: 0 }, [rules])
  assert.ok(verifier !== null)
  const token = (header: object = {}, claims: object = {}): Promise<string> => {
    const exp = Math.floor(clock.wallMs() / 1000) + 60
    const signed = new SignJWT({ iss: issuer, aud: 'galatea', sub: 'ann', exp, ...claims })
    return signed.setProtectedHeader({ alg: 'ES256', kid: 'key-1', ...header }).sign(privateKey)
  }
  return { verifier, clock, log, server, rules, token }
}

test('while the keys cannot be read, those that were read last count for a day, and the log says so once', async (t) => {
  const { verifier, clock, log, server, token } = await verifierUnderTest(t)
  const isGood = async (): Promise<boolean> => (await verifier.verify(await token())) !== null
  const warnings = (): number => log.entries.filter(({ message }) => message.includes('cannot be read')).length
  assert.equal(await isGood(), true)
  server.status = 500
  for (let hour = 0; hour < 23; hour++) {
    assert.equal(await isGood(), true, `${hour} h`)
    clock.advanceMs(3_600_000)
  }
  assert.equal(warnings(), 1)
  assert.equal(await verifier.verify(await token({ kid: 'key-2' })), null)
  clock.advanceMs(2 * 3_600_000)
  assert.equal(await isGood(), false)
  server.status = 200
  clock.advanceMs(1001)
  assert.equal(await isGood(), true)
  server.status = 500
  assert.equal(await isGood(), true)
  assert.equal(warnings(), 2)
})

test('an issuer that is away is not asked for every call', async (t) => {
  const { verifier, clock, server, token } = await verifierUnderTest(t)
  server.status = 500
  const signed = await token()
  for (let i = 0; i < 10; i++) assert.equal(await verifier.verify(signed), null)
  assert.equal(server.reads, 1)
  clock.advanceMs(1001)
  server.status = 200
  assert.ok((await verifier.verify(signed)) !== null)
})

test('a key that cannot be used, named by whoever wants, does not make the issuer seem away', async (t) => {
  const { verifier, log, server, token } = await verifierUnderTest(t)
  server.keys = [jwk, { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA', kid: 'broken', alg: 'ES256' }]
  assert.equal(await verifier.verify(await token({ kid: 'broken' })), null)
  assert.ok((await verifier.verify(await token())) !== null)
  assert.deepEqual(log.entries.filter(({ message }) => message.includes('cannot be read')), []) // prettier-ignore
})

test('callers of two issuers on one host have different names', async (t) => {
  const { rules } = await verifierUnderTest(t)
  const issuers = ['https://idp.example/realms/a', 'https://idp.example/realms/b', 'https://other.example/realms/a']
  const verifier = await TokenVerifier.open(
    { clock: new ManualClock(), log: new MemoryLog() },
    issuers.map((one) => ({ ...rules, issuer: one })),
  )
  const names = issuers.map(async (iss) => {
    const claims = new SignJWT({ iss, aud: 'galatea', sub: 'ann', exp: Math.floor(new ManualClock().wallMs() / 1000) + 60 }) // prettier-ignore
    return (await verifier?.verify(await claims.setProtectedHeader({ alg: 'ES256', kid: 'key-1' }).sign(privateKey)))
      ?.principal
  })
  assert.deepEqual(await Promise.all(names), ['ann@idp.example/realms/a', 'ann@idp.example/realms/b', 'ann@other.example']) // prettier-ignore
})

test('no text but a token of the issuer passes, and none makes the verifier fail', async (t) => {
  const { verifier, token } = await verifierUnderTest(t)
  const good = await token()
  const [head = '', body = '', signature = ''] = good.split('.')
  const thief = await generateKeyPair('ES256', { extractable: true })
  const thiefJwk = await exportJWK(thief.publicKey)
  const secret = Buffer.from(await exportSPKI(publicKey))
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object
  const stolen = (header: object): Promise<string> =>
    new SignJWT({ ...claims }).setProtectedHeader({ alg: 'ES256', ...header }).sign(thief.privateKey)
  const kids = [
    '',
    '../../../../dev/null',
    "' or 1=1 --",
    '__proto__',
    'key-1\u0000',
    'k'.repeat(5000),
    'http://127.0.0.1/',
  ]
  const forged = [
    ...kids.map((kid) => stolen({ kid })),
    stolen({ jwk: thiefJwk }),
    stolen({ kid: 'key-1', jwk: thiefJwk, jku: 'http://127.0.0.1:9/jwks', x5u: 'http://127.0.0.1:9/x' }),
    new SignJWT({ ...claims }).setProtectedHeader({ alg: 'HS256', kid: 'key-1' }).sign(secret),
    ...['none', 'None', 'NONE', '', 'ES256 ', 'es256'].map((alg) => `${part({ alg, kid: 'key-1' })}.${body}.`),
    ...['none', 'ES384', '__proto__'].map((alg) => `${part({ alg, kid: 'key-1' })}.${body}.${signature}`),
    `${part({ alg: 'ES256', kid: 'key-1', crit: ['exp'], b64: false })}.${body}.${signature}`,
    `${part({ alg: 'ES256', kid: ['key-1'] })}.${body}.${signature}`,
    `${head}.${Buffer.from('['.repeat(4000) + ']'.repeat(4000)).toString('base64url')}.${signature}`,
    `${head}.${Buffer.from('{"a":'.repeat(1000) + '1' + '}'.repeat(1000)).toString('base64url')}.${signature}`,
    `${head}.${part({ ...claims, exp: 1e308 })}.${signature}`,
    `${head}.${body}.${Buffer.alloc(64).toString('base64url')}`,
    `${head}.${body}.`,
    `${head}.${body}.${signature}.`,
    'x.'.repeat(4000),
  ]
  for (const one of forged) assert.equal(await verifier.verify(await one), null, (await one).slice(0, 300))
  // Claims of the issuer itself that are not of the right kind.
  for (const wrong of [
    { exp: 'soon' },
    { sub: 7 },
    { sub: 'a\nb' },
    { sub: 'x'.repeat(300) },
    { aud: ['other'] },
    { nbf: 4e9 },
  ]) {
    assert.equal(await verifier.verify(await token({}, wrong)), null, JSON.stringify(wrong))
  }
  const anyPart = fc.oneof(
    fc.constantFrom(head, body, signature, ''),
    fc.json({ maxDepth: 6 }).map((text) => Buffer.from(text).toString('base64url')),
    fc.string({ maxLength: 200 }),
    fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes).toString('base64url')),
  )
  const changed = fc.tuple(fc.nat(good.length - 1), fc.constantFrom('A', 'b', '-', '_', '.', '=', ' ', 'é')).map(([at, char]) => good.slice(0, at) + char + good.slice(at + 1)) // prettier-ignore
  const texts = fc.oneof(
    changed,
    fc.array(anyPart, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('.')),
  )
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      // The last character of a part may have bits that say nothing: then another one says the same.
      const isSame = text.split('.').every((one, i) => Buffer.from(one, 'base64url').equals(Buffer.from(good.split('.')[i] ?? '', 'base64url'))) // prettier-ignore
      if (!isSame) assert.equal(await verifier.verify(text), null, text)
    }),
    { numRuns: 300 },
  )
})
