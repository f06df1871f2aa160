import assert from 'node:assert/strict'
import { test } from 'node:test'
import { credentialFor, parseCredentialFile } from './cloud-credentials.ts'
import { parseCloudLocation, withoutSecrets, type BucketLocation } from './cloud-location.ts'

const bucketOf = (path: string): unknown[] => {
  const location = parseCloudLocation(path)
  assert.ok(location !== null && location.kind !== 'archive')
  return [location.kind, location.endpoint, location.account, location.bucket, location.prefix]
}

test('addresses are read as Triton reads them', () => {
  const cases: [path: string, expected: unknown[]][] = [
    ['s3://bucket', ['s3', null, '', 'bucket', '']],
    ['s3://bucket/a/b/', ['s3', null, '', 'bucket', 'a/b/']],
    ['s3://bucket//a', ['s3', null, '', 'bucket', 'a/']],
    ['s3://localhost:9000/bucket/a', ['s3', 'http://localhost:9000', '', 'bucket', 'a/']],
    ['s3://https://minio.example:9000/bucket', ['s3', 'https://minio.example:9000', '', 'bucket', '']],
    ['s3://http://10.0.0.1:80/bucket/a', ['s3', 'http://10.0.0.1:80', '', 'bucket', 'a/']],
    ['gs://bucket/a', ['gs', null, '', 'bucket', 'a/']],
    ['as://account/container/a', ['as', null, 'account', 'container', 'a/']],
    [
      'as://account.blob.core.windows.net/container',
      ['as', 'https://account.blob.core.windows.net', 'account', 'container', ''],
    ],
    ['as://http://127.0.0.1:10000/dev/container/a', ['as', 'http://127.0.0.1:10000/dev', 'dev', 'container', 'a/']],
  ]
  for (const [path, expected] of cases) assert.deepEqual(bucketOf(path), expected, path)
  assert.equal(parseCloudLocation('/models'), null)
  assert.equal(parseCloudLocation('./s3'), null)
})

test('an address that names no bucket, climbs, or is no archive is refused', () => {
  const cases: [path: string, message: RegExp][] = [
    ['s3://', /No bucket name found in path: s3:\/\//],
    ['s3://https://host:1/', /No bucket name found in path/],
    ['gs:///a', /No bucket name found/],
    ['as://account/', /No container name found/],
    ['as:///x', /No storage account found/],
    ['s3://bucket/../other', /not the address/],
    ['https://example.com/models.zip', /is not an archive/],
    ['https://', /is not a URL/],
  ]
  for (const [path, message] of cases) assert.throws(() => parseCloudLocation(path), { message }, path)
})

test('secrets in an address are not shown', () => {
  assert.equal(withoutSecrets('https://user:password@host/m.tar.gz?signature=abc'), 'https://host/m.tar.gz')
  assert.equal(withoutSecrets('s3://https://host:1/bucket/a'), 's3://https://host:1/bucket/a')
  assert.equal(withoutSecrets('/folder/what?#@'), '/folder/what?#@')
  const location = parseCloudLocation('https://user:password@host/m.tar.gz?signature=abc')
  assert.equal(location?.path, 'https://host/m.tar.gz')
})

test('of the credential file the longest matching path wins', () => {
  const file = parseCredentialFile(
    'c.json',
    JSON.stringify({
      gs: { '': 'general.json', 'gs://bucket/a': 'special.json' },
      s3: { 's3://b': { key_id: '1', secret_key: '2' } },
    }),
  )
  const at = (path: string): BucketLocation => parseCloudLocation(path) as BucketLocation
  assert.deepEqual(credentialFor(at('gs://bucket/a/b'), file), { keyFile: 'special.json' })
  assert.deepEqual(credentialFor(at('gs://other'), file), { keyFile: 'general.json' })
  assert.deepEqual(credentialFor(at('s3://bucket'), file), { key_id: '1', secret_key: '2' })
  assert.throws(() => credentialFor(at('s3://x'), file), { message: 'Cannot match credential for path  s3://x' })
  assert.throws(
    () => parseCredentialFile('c.json', '{"s3": "my secret'),
    (reason: Error) => {
      assert.equal(reason.message, "TRITON_CLOUD_CREDENTIAL_PATH: 'c.json' is not JSON")
      return true
    },
  )
})
