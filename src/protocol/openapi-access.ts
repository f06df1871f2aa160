// Access, use and cost in the OpenAPI document.

import { anyObject, errorAnswer, ok, operation, text, type JsonObject } from './openapi-parts.ts'

const query = (name: string, description: string): JsonObject => ({ name, in: 'query', description, schema: text })
const unknown = { '501': errorAnswer('The server runs without --access-config or --cost-per-hour') }
const refused = {
  '401': errorAnswer('No credentials, or wrong ones'),
  '403': errorAnswer('The caller may not see this'),
}

export const accessPaths = (): JsonObject => ({
  '/v2/access/me': {
    get: operation('whoAmI', 'server', 'Who the caller is, what the caller may do, and what is left of its limits', {
      ...ok(anyObject, 'The caller'),
      '401': refused['401'],
    }),
  },
  '/v2/access/usage': {
    get: {
      ...operation('usage', 'server', 'What tenants have used since the server started', {
        ...ok(anyObject, 'The tenant of the caller; all tenants for a caller with the right `access`'),
        ...refused,
        ...unknown,
      }),
      parameters: [query('tenant', 'one tenant')],
    },
  },
  '/v2/cost': {
    get: {
      ...operation('cost', 'server', 'What models or tenants cost since the server started', {
        ...ok(anyObject, 'Rows by cost, dearest first'),
        ...refused,
        ...unknown,
      }),
      parameters: [query('by', '`model` or `tenant`')],
    },
  },
})
