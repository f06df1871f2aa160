// What the SDK's connections do, against a real Galatea process: TLS, secrets, ending a program.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createGrpcClient, createHttpClient, type InferenceClient } from '../../src/client/node.ts'
import { exampleModels, projectRoot, startServerProcess } from './server-process.ts'
import { Certificates } from '../certificates.ts'

let folder: string
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-sdk-transport-'))
})
after(() => rm(folder, { recursive: true, force: true }))

const numbers = { data: Int32Array.from({ length: 16 }, (_, i) => i), shape: [1, 16] }
async function checkSums(client: InferenceClient): Promise<void> {
  const result = await client.infer('simple', { INPUT0: numbers, INPUT1: numbers })
  assert.equal(result.output('OUTPUT0').numbers()[15], 30)
}

test('both clients speak TLS, with a certificate of their own where the server wants one', async () => {
  const made = new Certificates().make('localhost')
  const [cert, key] = [made.file('localhost.crt'), made.file('localhost.key')]
  await using server = await startServerProcess([
    `--model-repository=${exampleModels}`,
    '--http-use-ssl=true',
    '--http-use-ssl-mutual=true',
    `--http-server-cert=${cert}`,
    `--http-server-key=${key}`,
    `--http-root-cert=${cert}`,
    '--grpc-use-ssl=true',
    '--grpc-use-ssl-mutual=true',
    `--grpc-server-cert=${cert}`,
    `--grpc-server-key=${key}`,
    `--grpc-root-cert=${cert}`,
  ])
  const tls = { ca: await readFile(cert), cert: await readFile(cert), key: await readFile(key) }
  await checkSums(createHttpClient({ url: `https://${server.address}`, tls }))
  const grpc = createGrpcClient({ url: server.grpcAddress, tls })
  await checkSums(grpc)
  await grpc.close()
  const strangers = [
    createHttpClient({ url: `https://${server.address}`, tls: { ca: tls.ca }, retries: 0 }),
    createGrpcClient({ url: `https://${server.grpcAddress}`, tls: { ca: tls.ca }, retries: 0 }),
  ]
  for (const stranger of strangers) {
    await assert.rejects(stranger.serverMetadata(), { code: 'UNREACHABLE' })
    await stranger.close()
  }
})

test('secrets of restricted APIs go along as headers', async () => {
  await using server = await startServerProcess([
    `--model-repository=${exampleModels}`,
    '--http-restricted-api=metadata:x-secret=open-sesame',
    '--grpc-restricted-protocol=metadata:secret=open-sesame',
  ])
  const url = server.url
  await assert.rejects(createHttpClient({ url }).serverMetadata(), { code: 'FORBIDDEN', status: 403 })
  const http = createHttpClient({ url, headers: { 'x-secret': 'open-sesame' } })
  assert.equal((await http.serverMetadata()).name, 'galatea')
  const closed = createGrpcClient({ url: server.grpcAddress, retries: 0 })
  await assert.rejects(closed.serverMetadata(), { message: /This protocol is restricted/ })
  await closed.close()
  const headers = { 'triton-grpc-protocol-secret': 'open-sesame' }
  const grpc = createGrpcClient({ url: server.grpcAddress, headers })
  assert.equal((await grpc.serverMetadata()).name, 'galatea')
  await grpc.close()
})

test('a program that forgets to close its clients ends all the same', async () => {
  await using server = await startServerProcess([`--model-repository=${exampleModels}`])
  const client = pathToFileURL(path.join(projectRoot, 'src/client/node.ts')).href
  const program = path.join(folder, 'forgetful.ts')
  await writeFile(
    program,
    `import { createGrpcClient, createHttpClient } from '${client}'
const clients = [createHttpClient({ url: '${server.url}' }), createGrpcClient({ url: '${server.grpcAddress}' })]
for (const client of clients) {
  const ready = await Promise.all(Array.from({ length: 40 }, () => client.isReady()))
  process.stdout.write(ready.every(Boolean) ? 'ready ' : 'not ready ')
}
`,
  )
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program])
  assert.equal(stdout, 'ready ready ')
  assert.equal(stderr, '', 'no warnings of too many listeners')
})
