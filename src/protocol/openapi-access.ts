// Access, use and cost in the OpenAPI document.

import { anyObject, errorAnswer, jsonContent, list, object, ok, operation, pathParameter, text, type JsonObject } from './openapi-parts.ts' // prettier-ignore

const query = (name: string, description: string): JsonObject => ({ name, in: 'query', description, schema: text })
const span = [
  query('from', 'a time, as 2026-01-31T12:00:00Z; without it since the start of the server'),
  query('to', 'a time; without it until now'),
]
const unknown = { '501': errorAnswer('The server runs without --access-config or --cost-per-hour') }
const refused = {
  '401': errorAnswer('No credentials, or wrong ones'),
  '403': errorAnswer('The caller may not see this'),
}

const duration: JsonObject = { type: 'string', pattern: '^[0-9]{1,6}(s|m|h|d)$' }
const listedKey = object(['id', 'name', 'state'], {
  id: text,
  name: text,
  role: text,
  tenant: text,
  addresses: list(text),
  state: { enum: ['active', 'revoked', 'expired'] },
  created: text,
  expires: { type: ['string', 'null'] },
  revoked: { type: ['string', 'null'] },
})
const newKey = object(['key', 'id', 'name'], {
  key: text,
  id: text,
  name: text,
  role: text,
  tenant: text,
  addresses: list(text),
  expires: { type: ['string', 'null'] },
})
const keyRefusals = {
  '400': errorAnswer('The body is not as it should be, or the key is revoked or expired already'),
  ...refused,
  '404': errorAnswer('There is no such key'),
  '501': errorAnswer("The server runs without --access-config, or the file has no line 'keys: keys.json'"),
}
const body = (schema: JsonObject): JsonObject => ({ requestBody: { content: jsonContent(schema) } })

const keyPaths = (): JsonObject => ({
  '/v2/access/keys': {
    get: operation('listKeys', 'server', 'Who has API keys, and which ones are in force', {
      ...ok(object(['keys'], { keys: list(listedKey) }), 'All keys'),
      ...keyRefusals,
    }),
    post: {
      ...operation('createKey', 'server', 'Make an API key; the answer is the only place that shows it', {
        ...ok(newKey, 'The new key'),
        ...keyRefusals,
      }),
      ...body(object(['name'], { name: text, role: text, tenant: text, expires: duration, addresses: list(text) })),
    },
  },
  '/v2/access/keys/{key}/revoke': {
    parameters: [pathParameter('key')],
    post: operation('revokeKey', 'server', 'End a key now; a name ends all keys of that name', {
      ...ok(object(['revoked'], { revoked: list(text) }), 'The ids of the keys that ended'),
      ...keyRefusals,
    }),
  },
  '/v2/access/keys/{key}/rotate': {
    parameters: [pathParameter('key')],
    post: {
      ...operation('rotateKey', 'server', 'Make a key in the place of another, which ends after the overlap', {
        ...ok(newKey, 'The new key'),
        ...keyRefusals,
      }),
      ...body(object([], { overlap: duration, expires: duration })),
    },
  },
})

export const accessPaths = (): JsonObject => ({
  '/v2/access/me': {
    get: operation('whoAmI', 'server', 'Who the caller is, what the caller may do, and what is left of its limits', {
      ...ok(anyObject, 'The caller'),
      '401': refused['401'],
    }),
  },
  ...keyPaths(),
  '/v2/access/usage': {
    get: {
      ...operation('usage', 'server', 'What tenants have used since the server started', {
        ...ok(anyObject, 'The tenant of the caller; all tenants for a caller with the right `access`'),
        ...refused,
        ...unknown,
      }),
      parameters: [query('tenant', 'one tenant'), ...span],
    },
  },
  '/v2/cost': {
    get: {
      ...operation('cost', 'server', 'What models or tenants cost since the server started', {
        ...ok(anyObject, 'Rows by cost, dearest first'),
        '400': errorAnswer('A query parameter is not as it should be'),
        ...refused,
        ...unknown,
      }),
      parameters: [query('by', '`model` or `tenant`'), ...span],
    },
  },
})
