import assert from 'node:assert/strict'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { runRollout } from './rollout.ts'

test('who sends no key is told how to send one', async () => {
  const server = http.createServer((_, answer) => answer.writeHead(401).end('{"error":"no credentials"}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  let stderr = ''
  const io = { stdout: () => undefined, stderr: (text: string) => void (stderr += text) }
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    assert.equal(await runRollout(['list', '--url', url], io), 1)
    assert.equal(stderr, "galatea rollout: no credentials\n--header 'x-api-key: KEY' sends a key\n")
  } finally {
    server.closeAllConnections()
    server.close()
  }
})
