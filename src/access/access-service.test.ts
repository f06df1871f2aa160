import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { factsOf } from '../../test/fakes/admission-facts.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { AccessService } from './access-service.ts'

const rules = 'keys: keys.json\nroles: { caller: { allow: [metadata] } }\n'

type Opened = {
  readonly service: AccessService
  readonly clock: ManualClock
  readonly keysFile: string
  readonly write: (text: string) => Promise<void>
  /** Whether a credential opens the metadata. */
  readonly opens: (credential: string) => Promise<boolean>
}

async function serviceUnderTest(t: TestContext, text = rules): Promise<Opened> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-access-service-'))
  const file = path.join(folder, 'access.yaml')
  const clock = new ManualClock()
  await writeFile(file, text)
  const service = await AccessService.open({ clock, log: new MemoryLog() }, file)
  t.after(async () => {
    await service.close()
    await rm(folder, { recursive: true })
  })
  return {
    service,
    clock,
    keysFile: path.join(folder, 'keys.json'),
    write: (content) => writeFile(file, content),
    opens: async (credential) => {
      const header = (name: string): string | null => (name === 'authorization' ? `Bearer ${credential}` : null)
      const verdict = await service.admission.admit(factsOf({ api: 'metadata', action: 'metadata', header }))
      return verdict.kind !== 'refused'
    },
  }
}

const wish = { name: 'web', role: 'caller', tenant: '', addresses: [], expires: '' }

test('a key that was revoked opens nothing, also while the file of rules has a mistake', async (t) => {
  const { service, write, opens } = await serviceUnderTest(t)
  const { key } = await service.createKey(wish, 'boss')
  assert.equal(await opens(key), true)
  await write(`${rules}grant: []\n`)
  await service.revokeKey('web', 'boss')
  assert.equal(await opens(key), false)
  const later = await service.createKey({ ...wish, name: 'later' }, 'boss')
  assert.equal(await opens(later.key), true, 'a new key counts at once, with the rules that were read before')
  await write(`${rules}\n`)
  await service.revokeKey('later', 'boss')
  assert.equal(await opens(later.key), false)
})

test('changes of keys at the same time count when their calls are answered', async (t) => {
  const { service, opens } = await serviceUnderTest(t)
  const made = await Promise.all([1, 2, 3, 4].map((i) => service.createKey({ ...wish, name: `web-${i}` }, 'boss')))
  for (const { key } of made) assert.equal(await opens(key), true)
  await Promise.all(
    made.map(async ({ key, record }) => {
      await service.revokeKey(record.name, 'boss')
      assert.equal(await opens(key), false)
    }),
  )
})

test('a lock that a killed process left behind keeps nobody from revoking a key, one of another machine for a minute', async (t) => {
  const { service, keysFile } = await serviceUnderTest(t)
  await service.createKey(wish, 'boss')
  const lock = `${keysFile}.lock`
  await writeFile(lock, '')
  await assert.rejects(service.revokeKey('web', 'boss'), { code: 'UNAVAILABLE', message: /try again in a minute/ })
  await writeFile(lock, `${hostname()} ${process.pid} `)
  await assert.rejects(service.revokeKey('web', 'boss'), { code: 'UNAVAILABLE' }, 'its process runs')
  await writeFile(lock, `${hostname()} ${2 ** 22 + 1} 77`)
  await service.revokeKey('web', 'boss')
  await service.createKey(wish, 'boss')
  await writeFile(lock, `elsewhere ${2 ** 22 + 1} 77`)
  await assert.rejects(
    service.revokeKey('web', 'boss'),
    { code: 'UNAVAILABLE' },
    'nobody knows the processes of another machine',
  )
  const old = new Date(Date.now() - 61_000)
  await utimes(lock, old, old)
  await service.revokeKey('web', 'boss')
  await assert.rejects(readFile(lock), { code: 'ENOENT' })
})

test('the keys of an issuer that is away go on counting when an API key is made', async (t) => {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }
  let status = 200
  const http = createServer((_, response) => response.writeHead(status).end(JSON.stringify({ keys: [jwk] })))
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  t.after(() => http.close())
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const jwt = `jwt: [{ issuer: "${issuer}", audience: a, jwks: "${issuer}/jwks", algorithms: [ES256] }]\n`
  const grants = 'grants: [{ to: { token: "*" }, role: caller }]\n'
  const { service, clock, opens } = await serviceUnderTest(t, rules + jwt + grants)
  const token = (sub: string): Promise<string> => {
    const exp = Math.floor(clock.wallMs() / 1000) + 600
    return new SignJWT({ iss: issuer, aud: 'a', sub, exp }).setProtectedHeader({ alg: 'ES256', kid: 'one' }).sign(privateKey) // prettier-ignore
  }
  assert.equal(await opens(await token('ann')), true)
  status = 500
  await service.createKey(wish, 'boss')
  assert.equal(await opens(await token('bob')), true)
})

test('work that goes on after its call has the rights that the keys of its caller have now', async (t) => {
  const { service, clock, write } = await serviceUnderTest(t)
  const may = (): boolean => service.rightsOfKey('web', 'web').may('metadata', 'm')
  assert.equal(may(), false, 'there is no such key')
  await service.createKey({ ...wish, expires: '1h' }, 'boss')
  assert.equal(may(), true)
  await service.rotateKey('web', '0h', '', 'boss')
  assert.equal(may(), true, 'the new key took the place of the old one')
  clock.advanceMs(7_200_000)
  assert.equal(may(), true)
  await write(rules.replace('metadata', 'health'))
  await service.createKey({ ...wish, name: 'other' }, 'boss')
  assert.equal(may(), false, 'the role may do less now')
  await write(`${rules}# as before\n`)
  await service.revokeKey('web', 'boss')
  assert.equal(may(), false)
})

test('keys of one name that belong to several tenants have each the rights of their own, and of one tenant the newest counts', async (t) => {
  const text = 'keys: keys.json\nroles: { caller: { allow: [metadata] }, reader: { allow: [inference] } }\n'
  const { service } = await serviceUnderTest(t, text)
  const may = (tenant: string): boolean[] => {
    const rights = service.rightsOfKey('ci', tenant)
    return [rights.may('metadata', 'm'), rights.may('inference', 'm')]
  }
  await service.createKey({ ...wish, name: 'ci', tenant: 'shop' }, 'boss')
  await service.createKey({ ...wish, name: 'ci', tenant: 'lab', role: 'reader' }, 'boss')
  assert.deepEqual([may('shop'), may('lab')], [[true, false], [false, true]]) // prettier-ignore
  await service.createKey({ ...wish, name: 'ci', tenant: 'shop', role: 'reader' }, 'boss')
  assert.deepEqual([may('shop'), may('lab'), may('ci')], [[false, true], [false, true], [false, false]]) // prettier-ignore
})
