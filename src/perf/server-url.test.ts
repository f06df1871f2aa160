import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseServerUrl } from './server-url.ts'

test('an address is host and port, with a scheme, a path or brackets where they are needed', () => {
  const cases = [
    ['localhost:8000', { host: 'localhost', port: 8000, basePath: '' }],
    ['http://box:80/', { host: 'box', port: 80, basePath: '' }],
    ['https://box', { host: 'box', port: 443, basePath: '' }],
    ['box:9/a/b/', { host: 'box', port: 9, basePath: '/a/b' }],
    ['[::1]:8001', { host: '::1', port: 8001, basePath: '' }],
  ] as const
  for (const [url, expected] of cases) assert.deepEqual(parseServerUrl(url, 'http'), expected)
  for (const url of ['', 'box', 'box:', 'box:0', 'box:99999', 'box:a', '::1', 'ftp://box:1', ':80']) {
    assert.throws(() => parseServerUrl(url, 'http'), /Failed to parse -u\. The value must be HOST:PORT, got '/, url)
  }
  assert.throws(() => parseServerUrl('box:9/a', 'grpc'), /must be HOST:PORT/)
})
