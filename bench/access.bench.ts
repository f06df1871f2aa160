// What `--access-config` adds to a request on a kept connection: its caller is known, its rights are compared, its use is counted. In
// one process, without a socket.

import { AccessAdmission } from '../src/access/access-admission.ts'
import { readAccessConfig, type AccessConfig } from '../src/access/access-config.ts'
import { AccessPolicy } from '../src/access/access-policy.ts'
import type { Caller } from '../src/access/caller.ts'
import { apiKeyText, createApiKey, secretHash } from '../src/access/api-key.ts'
import { TenantAccounts } from '../src/access/tenant-accounts.ts'
import { SystemClock } from '../src/base/clock.ts'
import { HttpCallFacts } from '../src/ports/http/http-call-facts.ts'
import { Router } from '../src/ports/http/router.ts'
import { large, post } from '../src/ports/http/route.ts'
import { InjectedRequest } from '../test/fakes/injected-request.ts'
import { alternate, medianOf, type Bench, type Figure } from './bench.ts'

const clock = new SystemClock()
const perRun = 200_000
const target = '/v2/models/m/infer'

function admissionOf(limits: object[]): { admission: AccessAdmission; key: string } {
  const { config } = readAccessConfig(
    { roles: { caller: { allow: ['inference@m*'] } }, tenants: { web: { limits } } },
    () => null,
  )
  const key = createApiKey()
  const record = { id: key.id, name: 'web-1', hash: secretHash(key.secret).toString('hex'), role: 'caller', tenant: 'web', addresses: [], createdMs: 0, expiresMs: null, revokedMs: null } // prettier-ignore
  const accounts = new TenantAccounts(clock, config as AccessConfig)
  const policy = new AccessPolicy(config as AccessConfig, [record], (tenant) => accounts.of(tenant))
  const verifyToken = (): Promise<null> => Promise.resolve(null)
  return { admission: new AccessAdmission({ clock, policy: () => policy, verifyToken }), key: apiKeyText(key) }
}

const router = new Router([large(post('/v2/models/{model}/infer', 'inference', () => undefined))])

/** Microseconds per request. */
function run(admission: AccessAdmission | null, request: InjectedRequest): number {
  const startNs = clock.nowNs()
  let count = 0
  for (let i = 0; i < perRun; i++) {
    if (admission === null) {
      count++
      continue
    }
    const match = router.find(target) as NonNullable<ReturnType<Router['find']>>
    const caller = admission.admit(new HttpCallFacts('http', match, request)) as Caller
    const { account, rights } = caller
    if (rights?.may('inference', 'm') !== true || account?.begin(1, 0, false) !== null) throw new Error(caller.kind)
    account.end({ model: 'm', rows: 1, tokens: 0, computeNs: 1000 })
    count++
  }
  if (count !== perRun) throw new Error('a request was refused')
  return (clock.nowNs() - startNs) / 1000 / perRun
}

const cases = [
  ['a key', [], 1],
  ['a key and two limits', [{ requests: '1G/s' }, { inferences: '1G/s' }], 3],
] as const

export const bench: Bench = {
  name: 'access',
  summary: 'What --access-config adds to a request on a kept connection, beside the same request without it',
  async run({ rounds, say }) {
    const figures: Figure[] = []
    for (const [what, limits, value] of cases) {
      const { admission, key } = admissionOf([...limits])
      const request = new InjectedRequest(
        { method: 'POST', path: target, headers: [['x-api-key', key]] },
        () => undefined,
      )
      for (let i = 0; i < 3; i++) for (const one of [null, admission]) run(one, request)
      const { ours, theirs } = await alternate(rounds, {
        ours: () => Promise.resolve(run(admission, request)),
        theirs: () => Promise.resolve(run(null, request)),
      })
      const added = medianOf(ours.map((us, i) => us - (theirs[i] as number)))
      const detail = `${medianOf(ours).toFixed(2)} µs with, ${medianOf(theirs).toFixed(2)} µs without`
      figures.push({ what: `added: ${what}`, value: added, unit: 'µs', target: { kind: 'at most', value }, detail })
      say(`${what}: ${detail}`)
    }
    return figures
  },
}
