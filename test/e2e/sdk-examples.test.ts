// What the documents and examples say about the TypeScript SDK, run as it stands there.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

let server: ServerProcess
let folder: string
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-sdk-docs-'))
  server = await startServerProcess([`--model-repository=${exampleModels}`])
})
after(async () => {
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

const run = async (...flags: string[]): Promise<string> =>
  (await promisify(execFile)(process.execPath, flags, { cwd: projectRoot })).stdout

test('the programs of the clients guide run', async () => {
  const guide = await readFile(path.join(projectRoot, 'docs/guide/clients.md'), 'utf8')
  const blocks = [...guide.matchAll(/(<!-- not run[^>]*-->\s*)?```ts\n([\s\S]*?)```/g)]
  const programs = blocks.filter(([, isNotRun]) => isNotRun === undefined).map(([, , code = '']) => code)
  assert.equal(programs.length, 4)
  const client = pathToFileURL(path.join(projectRoot, 'src/client/node.ts')).href
  const outputs: string[] = []
  for (const [index, program] of programs.entries()) {
    const file = path.join(folder, `program-${index}.ts`)
    const here = program
      .replace("'galatea/client'", `'${client}'`)
      .replace('http://localhost:8000', server.url)
      .replace('localhost:8001', server.grpcAddress)
    await writeFile(file, here)
    outputs.push(await run(file))
  }
  assert.match(outputs[0] ?? '', /Int32Array\(16\)[\s\S]*0, +2, +4/)
  assert.match(outputs[1] ?? '', /0, 0, 0[\s\S]*name: 'pixels'/)
  assert.match(outputs[2] ?? '', /^seven 0\.9/)
  assert.match(outputs[3] ?? '', /^NOT_FOUND 404 Request for unknown model/)
})

test('digits-sdk.ts names the digit of a picture over both protocols', async () => {
  const picture = path.join(projectRoot, 'examples/images/three.png')
  const script = path.join(projectRoot, 'examples/clients/digits-sdk.ts')
  const output = await run(script, picture, server.address, server.grpcAddress)
  assert.match(output, /^over HTTP: three [\d.]+%\nover gRPC: three [\d.]+%\n$/)
})
