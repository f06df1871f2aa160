// The HTTP client where there is no Node: only what web pages and workers have.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

let server: ServerProcess
let report: Readonly<Record<string, unknown>> & { readonly files: readonly string[] }

before(async () => {
  server = await startServerProcess([`--model-repository=${exampleModels}`])
  const page = path.join(import.meta.dirname, 'sdk-web-page.ts')
  const flags = ['--experimental-vm-modules', '--no-warnings', page, server.url, projectRoot]
  const { stdout } = await promisify(execFile)(process.execPath, flags)
  report = JSON.parse(stdout) as typeof report
})
after(async () => {
  await server?.stop()
})

test('the HTTP client needs no module of Node, and nothing of gRPC or the server', () => {
  assert.ok(report.files.includes('src/client/http/http-client.ts'), report.files.join('\n'))
  const foreign = report.files.filter(
    (name) => !/^(page\.ts|src\/(client\/(?!grpc|node)|tensor\/|base\/).*)$/.test(name),
  )
  assert.deepEqual(foreign, [])
})

test('it infers with web globals alone: binary, JSON, packed', () => {
  assert.deepEqual(report['globals'], [])
  assert.equal(report['isReady'], true)
  const sums = Array.from({ length: 16 }, (_, i) => 2 * i)
  for (const way of ['binary', 'json', 'packed']) assert.deepEqual(report[way], sums, way)
})

test('its errors, timeouts and uploads work with web globals alone', () => {
  assert.equal(report['unknownModel'], 'NOT_FOUND')
  assert.equal(report['timedOut'], 'TIMEOUT')
  assert.equal(report['unreachable'], false)
  // The server was not started to take uploads: what counts is that the request was made.
  assert.equal(report['loadRefused'], 'INVALID_ARG')
})
