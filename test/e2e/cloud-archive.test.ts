// A repository that is one archive behind HTTP, beside one on this machine.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { httpInfer } from './http-infer.ts'
import { projectRoot, startServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const config = `backend: "identity" max_batch_size: 8
  input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }`
const input = { name: 'INPUT0', datatype: 'INT32', shape: [1, 2], data: [4, 2] }

async function archiveOf(files: Readonly<Record<string, string>>): Promise<Buffer> {
  const archive = pack()
  for (const [name, content] of Object.entries(files)) archive.entry({ name }, content)
  archive.finalize()
  return gzipSync(Buffer.concat(await Array.fromAsync(archive as unknown as AsyncIterable<Buffer>)))
}

let server: Server
let folder = ''
let body: Buffer = Buffer.alloc(0)
let downloads = 0
let url = ''

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-archive-'))
  await mkdir(path.join(folder, 'local', 'here', '1'), { recursive: true })
  await writeFile(path.join(folder, 'local', 'here', 'config.pbtxt'), config)
  server = createServer((request, response) => {
    if (request.method === 'GET') downloads++
    const etag = `"${createHash('md5').update(body).digest('hex')}"`
    response.writeHead(200, { etag, 'content-length': body.length }).end(request.method === 'HEAD' ? '' : body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/models.tar.gz?signature=quite-secret`
})

after(async () => {
  server.closeAllConnections()
  server.close()
  await rm(folder, { recursive: true, force: true })
})

test('models of an archive serve beside local ones, follow the archive, and no secret of its address is shown', async () => {
  body = await archiveOf({ 'models/there/config.pbtxt': config, 'models/there/1/weights.bin': 'one' })
  await using galatea = await startServerProcess([
    `--model-repository=${path.join(folder, 'local')}`,
    `--model-repository=${url}`,
    `--model-cache-dir=${path.join(folder, 'cache')}`,
    '--model-control-mode=poll',
    '--repository-poll-secs=1',
  ])
  assert.equal((await httpInfer(galatea.url, 'here', [input])).status, 200)
  assert.equal((await httpInfer(galatea.url, 'there', [input])).status, 200)
  assert.equal(downloads, 1)
  // One that is refused changes nothing.
  body = await archiveOf({ '../../evil': 'x', 'models/there/config.pbtxt': config })
  await galatea.said('which is refused')
  assert.equal((await httpInfer(galatea.url, 'there', [input])).status, 200)
  body = await archiveOf({
    'models/there/config.pbtxt': config,
    'models/there/2/weights.bin': 'two',
    'models/late/config.pbtxt': config,
    'models/late/1/weights.bin': 'three',
  })
  await until(async () => (await httpInfer(galatea.url, 'late', [input])).status === 200, 'the model that came late')
  await until(async () => (await fetch(`${galatea.url}/v2/models/there/versions/2/ready`)).ok, 'version 2')
  assert.ok(!galatea.output.includes('quite-secret'))
})

test('galatea check reads a repository that lies elsewhere', async () => {
  body = await archiveOf({ 'm/config.pbtxt': 'backend: "identity" max_batch_size: -1', 'm/1/weights.bin': 'one' })
  const args = [
    path.join(projectRoot, 'bin/galatea.js'),
    'check',
    url,
    `--model-cache-dir=${path.join(folder, 'cache')}`,
  ]
  const failed = await promisify(execFile)(process.execPath, args).then(
    () => assert.fail('it found nothing wrong'),
    (reason: unknown) => reason as { code: number; stdout: string; stderr: string },
  )
  assert.equal(failed.code, 1, failed.stderr)
  assert.match(failed.stdout, /^http:\/\/127\.0\.0\.1:\d+\/models\.tar\.gz\/m\/config\.pbtxt/)
  assert.ok(!failed.stdout.includes('quite-secret'))
})
