// A client in Go, whose gRPC library pings to measure the connection while answers come.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../tool.ts'
import { createIdentityRepository } from './identity-repository.ts'
import { projectRoot, startServerProcess } from './server-process.ts'

test('a client in Go gets large answers', async (context) => {
  await using repository = await createIdentityRepository()
  const server = await startServerProcess([`--model-repository=${repository.path}`])
  context.after(() => server.stop())
  const script = path.join(projectRoot, 'test/fixtures/go-client.k6.js')
  const env = {
    ...process.env,
    SERVER: server.grpcAddress,
    PROTOS: path.join(projectRoot, 'proto'),
    K6_NO_USAGE_REPORT: 'true',
  }
  const { stdout } = await promisify(execFile)(await requireTool('k6'), ['run', '--quiet', script], { env })
  assert.match(stdout, /checks_succeeded\S*: 100\.00%/)
})
