import assert from 'node:assert/strict'
import test from 'node:test'
import { openAzure } from './azure-object-store.ts'
import { parseCloudLocation, type BucketLocation } from './cloud-location.ts'

test('a credential type that is not known is refused, and not taken for an anonymous access', async () => {
  const location = parseCloudLocation('as://account/container/models') as BucketLocation
  for (const authType of ['managed-identity', 'Default', 'sas']) {
    await assert.rejects(openAzure(location, { auth_type: authType }, {}), {
      code: 'INVALID_ARG',
      message: `Unable to create Azure filesystem client: the auth_type (AZURE_STORAGE_AUTH_TYPE) '${authType}' is not known, expected managed_identity or default`,
    })
  }
})
