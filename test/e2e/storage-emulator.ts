// Real emulators of cloud storage, each behind a proxy that counts what is asked for and can be told to fail.

import { spawn, type ChildProcess } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'

export type StorageEmulator = AsyncDisposable & {
  readonly name: string
  readonly proxy: FaultyProxy
  /** What `--model-repository` names. */
  readonly repository: string
  /** What the server must know to find and open it. */
  readonly environment: Readonly<Record<string, string>>
  put(key: string, content: string | Uint8Array): Promise<void>
}

export const bucketName = 'models-under-test'

/** Starts a program and waits until it answers on its port. */
async function startProgram(
  program: string,
  args: readonly string[],
  port: number,
  environment = {},
): Promise<ChildProcess> {
  const child = spawn(program, args, { env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  let output = ''
  const read = (chunk: Buffer): void => void (output += chunk.toString())
  child.stdout.on('data', read)
  child.stderr.on('data', read)
  const isAnswering = (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`${program} ended at once:\n${output}`)
    return fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    )
  }
  await until(isAnswering, `${program} to answer`, { everyMs: 50, seen: () => output })
  return child
}

async function stopProgram(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** What to do to a request in place of passing it on whole. */
export type Fault = 'unavailable' | 'cut' | null

export class FaultyProxy {
  readonly #server: Server
  readonly #targetPort: number
  readonly requests: {
    readonly method: string
    readonly url: string
    readonly range: string
    readonly authorization: string
  }[] = []
  fault: (method: string, url: string) => Fault = () => null
  /** What a connection that is to break waits for, once half of the answer is on its way. */
  beforeCut: () => Promise<void> = () => Promise.resolve()

  private constructor(targetPort: number) {
    this.#targetPort = targetPort
    this.#server = createServer((incoming, outgoing) => this.#pass(incoming, outgoing))
  }

  static async start(targetPort: number): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(targetPort)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method = '', url = '', headers } = incoming
    const range = String(headers.range ?? headers['x-ms-range'] ?? '')
    this.requests.push({ method, url, range, authorization: headers.authorization ?? '' })
    const fault = this.fault(method, url)
    if (fault === 'unavailable') {
      incoming.resume()
      outgoing.writeHead(503, { connection: 'close' }).end()
      return
    }
    const passed = request({ host: '127.0.0.1', port: this.#targetPort, method, path: url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      if (fault === null) answer.pipe(outgoing)
      else {
        // Half of what is promised, and then the line is dead.
        const half = Math.floor(Number(answer.headers['content-length'] ?? 0) / 2)
        let sent = 0
        answer.on('data', (chunk: Buffer) => {
          if (sent >= half) return
          const part = chunk.subarray(0, half - sent)
          sent += part.length
          if (sent < half) outgoing.write(part)
          else outgoing.write(part, () => void this.beforeCut().then(() => outgoing.destroy()))
        })
      }
    })
    passed.on('error', () => outgoing.destroy())
    incoming.pipe(passed)
  }
}

async function requireOk(answer: Response): Promise<void> {
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status} ${await answer.text()}`)
}

export async function startS3(): Promise<StorageEmulator> {
  const port = await freePort()
  const child = await startProgram(await requireTool('moto-server'), ['-H', '127.0.0.1', '-p', String(port)], port)
  const proxy = await FaultyProxy.start(port)
  // The emulator wants to know who writes, but checks no signature.
  const authorization =
    'AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0'
  const put = async (key: string, content: string | Uint8Array): Promise<void> => {
    const body = Buffer.from(content as string)
    const url = `http://127.0.0.1:${port}/${bucketName}/${key}`
    await requireOk(await fetch(url, { method: 'PUT', headers: { authorization }, body }))
  }
  await requireOk(await fetch(`http://127.0.0.1:${port}/${bucketName}`, { method: 'PUT' }))
  return {
    name: 's3',
    proxy,
    repository: `s3://http://127.0.0.1:${proxy.port}/${bucketName}/some/folder`,
    environment: { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'very-secret-key', AWS_DEFAULT_REGION: 'us-east-1' },
    put: (key, content) => put(`some/folder/${key}`, content),
    [Symbol.asyncDispose]: async () => {
      proxy.close()
      await stopProgram(child)
    },
  }
}

export async function startGcs(): Promise<StorageEmulator> {
  const port = await freePort()
  const flags = ['start', '--host=127.0.0.1', `--port=${port}`, '--in-memory', `--default-bucket=${bucketName}`]
  const child = await startProgram(await requireTool('gcp-storage-emulator'), flags, port)
  const proxy = await FaultyProxy.start(port)
  const put = async (key: string, content: string | Uint8Array): Promise<void> => {
    const query = `uploadType=media&name=${encodeURIComponent(key)}`
    const url = `http://127.0.0.1:${port}/upload/storage/v1/b/${bucketName}/o?${query}`
    await requireOk(await fetch(url, { method: 'POST', body: Buffer.from(content as string) }))
  }
  return {
    name: 'gs',
    proxy,
    repository: `gs://${bucketName}/some/folder`,
    environment: {
      STORAGE_EMULATOR_HOST: `http://127.0.0.1:${proxy.port}`,
    },
    put: (key, content) => put(`some/folder/${key}`, content),
    [Symbol.asyncDispose]: async () => {
      proxy.close()
      await stopProgram(child)
    },
  }
}

/** The account of every Azure emulator; its key is public. */
const azureAccount = 'devstoreaccount1'
const azureKey = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='

export async function startAzure(): Promise<StorageEmulator> {
  const port = await freePort()
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-azurite-'))
  const flags = ['--blobHost', '127.0.0.1', '--blobPort', String(port), '--location', folder, '--skipApiVersionCheck']
  // Its queue and table services are not wanted, and their ports might be taken.
  const program = `${await requireTool('azurite')}-blob`
  const child = await startProgram(program, [...flags, '--disableTelemetry'], port)
  const proxy = await FaultyProxy.start(port)
  const put = (place: string, content: string | Uint8Array, headers: Record<string, string>): Promise<void> =>
    putAzure(port, place, content, headers)
  await put(`${bucketName}?restype=container`, '', {})
  return {
    name: 'as',
    proxy,
    repository: `as://http://127.0.0.1:${proxy.port}/${azureAccount}/${bucketName}/some/folder`,
    environment: {
      AZURE_STORAGE_ACCOUNT: azureAccount,
      AZURE_STORAGE_KEY: azureKey,
    },
    put: (key, content) => put(`${bucketName}/some/folder/${key}`, content, { 'x-ms-blob-type': 'BlockBlob' }),
    [Symbol.asyncDispose]: async () => {
      proxy.close()
      await stopProgram(child)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Azure's Shared Key signature, which its emulator checks too. */
async function putAzure(
  port: number,
  place: string,
  content: string | Uint8Array,
  extra: Record<string, string>,
): Promise<void> {
  const body = Buffer.from(content as string)
  const [resource = '', query = ''] = place.split('?')
  const own: Record<string, string> = { ...extra, 'x-ms-date': new Date().toUTCString(), 'x-ms-version': '2021-12-02' }
  const canonicalHeaders = Object.keys(own)
    .sort()
    .map((name) => `${name}:${own[name] ?? ''}\n`)
    .join('')
  const canonicalQuery = query === '' ? '' : `\n${query.replace('=', ':')}`
  const canonicalResource = `/${azureAccount}/${azureAccount}/${resource}${canonicalQuery}`
  const length = body.length === 0 ? '' : String(body.length)
  const text = `PUT\n\n\n${length}\n\n${body.length === 0 ? '' : 'application/octet-stream'}\n\n\n\n\n\n\n${canonicalHeaders}${canonicalResource}`
  const signature = createHmac('sha256', Buffer.from(azureKey, 'base64')).update(text).digest('base64')
  const headers = {
    ...own,
    ...(body.length === 0 ? {} : { 'content-type': 'application/octet-stream' }),
    authorization: `SharedKey ${azureAccount}:${signature}`,
  }
  const url = `http://127.0.0.1:${port}/${azureAccount}/${place}`
  await requireOk(await fetch(url, { method: 'PUT', headers, ...(body.length === 0 ? {} : { body }) }))
}
