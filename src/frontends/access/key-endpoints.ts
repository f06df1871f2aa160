// Keys over the API: `/v2/access/keys`, for callers with the permission `access`. A new key is in the answer, once.

import type { AccessService } from '../../access/access-service.ts'
import type { ListedKey, MadeKey } from '../../access/key-book.ts'
import { PlanProblems, type PlanValue } from '../../base/plan-reader.ts'
import { ServerError } from '../../base/server-error.ts'
import { respondWithError } from '../../ports/http/error-response.ts'
import { bodyOf } from '../../ports/http/json-answers.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { HttpResponse, jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'

/** A new key must not stay in the cache of a browser or of a proxy. */
const headers = ['Cache-Control', 'no-store']

export class KeyEndpoints {
  readonly #access: AccessService | null

  constructor(access: AccessService | null) {
    this.#access = access
  }

  readonly listOrCreate: RouteHandler = (http, _key, _version, { principal }) =>
    this.#answer(http, async (access) => {
      if (http.method === 'GET') return { keys: (await access.listKeys()).map(listed) }
      const wish = read(http, ['name', 'role', 'tenant', 'expires', 'addresses'], (fields) => ({
        name: textOf(fields.name),
        role: textOf(fields.role),
        tenant: textOf(fields.tenant),
        expires: textOf(fields.expires),
        addresses: fields.addresses.isThere ? (fields.addresses.texts() ?? []) : [],
      }))
      return made(await access.createKey(wish, principal))
    })

  readonly revoke: RouteHandler = (http, key, _version, { principal }) =>
    this.#answer(http, async (access) => {
      read(http, [], () => null)
      return { revoked: (await access.revokeKey(key, principal)).map(({ id }) => id) }
    })

  readonly rotate: RouteHandler = (http, key, _version, { principal }) =>
    this.#answer(http, async (access) => {
      const { overlap, expires } = read(http, ['overlap', 'expires'], (fields) => ({
        overlap: fields.overlap.isThere ? textOf(fields.overlap) : '24h',
        expires: textOf(fields.expires),
      }))
      return made(await access.rotateKey(key, overlap, expires, principal))
    })

  #answer(http: HttpRequest, make: (access: AccessService) => Promise<object>): void {
    const fail = (reason: unknown): void => respondWithError(http, reason)
    if (this.#access === null) {
      fail(ServerError.withoutStack('UNSUPPORTED', 'keys belong to callers with --access-config only'))
      return
    }
    make(this.#access).then(
      (value) => http.respond(new HttpResponse(200, jsonType, [Buffer.from(JSON.stringify(value))], { headers })),
      fail,
    )
  }
}

const textOf = (value: PlanValue): string => (value.isThere ? (value.text() ?? '') : '')

/** An empty body is an empty object. Throws ServerError that says everything that is wrong. */
function read<Key extends string, T>(
  http: HttpRequest,
  known: readonly Key[],
  make: (fields: Readonly<Record<Key, PlanValue>>) => T,
): T {
  const problems = new PlanProblems(() => null)
  const result = make(problems.root(bodyOf(http)).fields(known) as Readonly<Record<Key, PlanValue>>)
  const found = problems.list().map(({ message, fix }) => (fix === '' ? message : `${message}; ${fix}`))
  if (found.length > 0) throw ServerError.withoutStack('INVALID_ARG', found.join('\n'))
  return result
}

const timeText = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

const listed = ({ id, name, role, tenant, addresses, state, ...times }: ListedKey): object => ({
  id,
  name,
  role,
  tenant,
  addresses,
  state,
  created: timeText(times.createdMs),
  expires: timeText(times.expiresMs),
  revoked: timeText(times.revokedMs),
})

const made = ({ key, record: { id, name, role, tenant, addresses, expiresMs } }: MadeKey): object => ({
  key,
  id,
  name,
  role,
  tenant,
  addresses,
  expires: timeText(expiresMs),
})
