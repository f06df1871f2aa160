// What docs/guide/several-servers.md shows to paste, with ports and an Envoy of this run.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { projectRoot } from './server-process.ts'

test('the commands of the guide start two servers, a control plane and an Envoy that answers', async (context) => {
  const page = readFileSync(path.join(projectRoot, 'docs/guide/several-servers.md'), 'utf8')
  const [, block = ''] = /```sh\n([^`]+)```/.exec(page) ?? []
  const ports = new Map<string, number>()
  for (const port of ['8000', '8001', '8002', '8010', '8011', '8012', '10000', '18000', '18001']) ports.set(port, await freePort()) // prettier-ignore
  const script = block
    .replace(/^pip .*\n/m, '')
    .replaceAll('npx galatea', `${process.execPath} ${path.join(projectRoot, 'bin/galatea.js')}`)
    .replaceAll(/galatea\.js fleet/g, `$& --xds-port ${ports.get('18000')} --http-port ${ports.get('18001')}`)
    .replaceAll('http://127.0.0.1:8000,', `http://127.0.0.1:8000?grpc=8001,`)
    .replaceAll('http://127.0.0.1:8010 ', `http://127.0.0.1:8010?grpc=8011 `)
    .replaceAll('envoy -c', `${await requireTool('envoy')} --use-dynamic-base-id --concurrency 1 -l error -c`)
    .replaceAll(/\b(?:8|18|10)0[01][0-2]?0?\b/g, (port) => String(ports.get(port) ?? port))
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-page-'))
  // A group of its own: its end takes all that was started with it.
  const shell = spawn('bash', ['-c', `${script}\nwait`], { cwd: folder, detached: true, stdio: ['ignore', 'pipe', 'pipe'] }) // prettier-ignore
  let output = ''
  const read = (chunk: Buffer): void => void (output += chunk.toString())
  shell.stdout.on('data', read)
  shell.stderr.on('data', read)
  const closed = new Promise((resolve) => shell.once('close', resolve))
  context.after(async () => {
    process.kill(-(shell.pid ?? 0), 'SIGKILL')
    await closed
    rmSync(folder, { recursive: true })
  })
  await until(() => output.includes('"servers":'), 'the report of the fleet', { everyMs: 100, seen: () => output })
  const report = JSON.parse(/^\{"servers":.*$/m.exec(output)?.[0] ?? '{}') as { servers: { url: string }[] }
  assert.equal(report.servers.length, 2)
  const ready = await fetch(`http://127.0.0.1:${ports.get('10000')}/v2/models/simple/ready`)
  assert.equal(ready.status, 200)
})
