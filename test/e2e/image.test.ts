// The image of deploy/docker: its Dockerfile is clean and says what the program says, and a link called tritonserver is Triton.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { flagTable } from '../../src/options/flag-table.ts'
import { requireTool } from '../tool.ts'
import { exampleModels, projectRoot, startServerProcess } from './server-process.ts'

const dockerfile = path.join(projectRoot, 'deploy/docker/Dockerfile')
const text = readFileSync(dockerfile, 'utf8')

test('the Dockerfile has no findings', async () => {
  const { status, stdout, stderr } = spawnSync(await requireTool('hadolint'), [dockerfile], { encoding: 'utf8' })
  assert.deepEqual([stdout, stderr, status], ['', '', 0])
})

test('flags, variables and ports of the Dockerfile are those of the program', () => {
  const defaults = new Map(flagTable.map((flag) => [flag.name, flag.default]))
  const command = text.split('\n').filter((line) => line.startsWith('CMD'))
  const flags = [...command.join('\n').matchAll(/"--([a-z-]+)=/g)].map(([, name = '']) => name)
  assert.deepEqual(flags, ['model-repository', 'log-format', 'live-check'])
  const variables = [...text.matchAll(/GALATEA_([A-Z_]+)=/g)].map(([, name = '']) =>
    name.toLowerCase().replaceAll('_', '-'),
  )
  assert.deepEqual(variables, ['http-address', 'grpc-address', 'metrics-address'])
  for (const name of [...flags, ...variables]) assert.ok(defaults.has(name), `--${name}`)
  const ports = /^EXPOSE (.*)$/m.exec(text)?.[1]?.split(' ')
  assert.deepEqual(
    ports,
    ['http-port', 'grpc-port', 'metrics-port'].map((name) => defaults.get(name)),
  )
  assert.match(text, /^USER 1000:1000$/m)
  assert.deepEqual([...text.matchAll(/^FROM \S+ AS (\S+)$/gm)].map(([, target]) => target), ['build', 'root', 'min', 'python-root', 'python', 'full']) // prettier-ignore
})

test("a link called tritonserver takes Triton's command line and has Triton's defaults", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-link-'))
  const launcher = path.join(folder, 'tritonserver')
  symlinkSync(path.join(projectRoot, 'bin/galatea.js'), launcher)
  try {
    const { status, stderr } = spawnSync(process.execPath, [launcher, '--no-such-flag'], { encoding: 'utf8' })
    assert.deepEqual([status, stderr.split('\n', 1)[0]], [1, "tritonserver: unrecognized option '--no-such-flag'"])
    await using server = await startServerProcess([`--model-repository=${exampleModels}`], {
      launcher,
      hasCommand: false,
    })
    const port = server.address.split(':')[1]
    assert.match(server.address, /^0\.0\.0\.0:/)
    const { name, version } = (await (await fetch(`http://127.0.0.1:${port}/v2`)).json()) as Record<string, string>
    assert.deepEqual([name, version], ['triton', '2.51.0'])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
