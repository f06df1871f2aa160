// `GET /metrics` on a port of its own.

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { brotliCompress, constants, deflate, gzip } from 'node:zlib'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { nodeHttp } from '../../transport/node-http.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { encodeErrorBody } from '../../protocol/error-body.ts'
import { preferenceFor } from './accept-header.ts'

export type MetricsOptions = {
  /** `--metrics-address` */
  readonly address: string
  /** `--metrics-port`; 0 lets the system choose one. */
  readonly port: number
}

export type PageFormat = {
  /** `type/subtype; parameter=value…` */
  readonly contentType: string
  /** The page, piece by piece. */
  pieces(): Iterable<string>
}

export type MetricsDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** The first is for those who ask for none of them. */
  readonly formats: readonly PageFormat[]
}

/** Longer than this the page must not hold the main thread before others had their turn. */
const sliceNs = 4e6
/** Pieces are put together into buffers of about this size, so that the end of a long page takes no longer than its middle. */
const chunkChars = 64 * 1024
/** Below this, compressing costs more than it saves. */
const worthCompressingBytes = 1024

const [gzipAsync, deflateAsync, brotliAsync] = [promisify(gzip), promisify(deflate), promisify(brotliCompress)]
/** In the order of our own preference, where the client has none. All run in Node's threads. */
const encodings: ReadonlyMap<string, (page: Buffer) => Promise<Buffer>> = new Map([
  ['gzip', (page: Buffer) => gzipAsync(page)],
  ['br', (page: Buffer) => brotliAsync(page, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })],
  ['deflate', (page: Buffer) => deflateAsync(page)],
])

export class MetricsFrontend {
  readonly #log: Log
  readonly #clock: Clock
  readonly #formats: readonly PageFormat[]
  readonly #options: MetricsOptions
  readonly #server: Server
  /** The pages being written; those who ask meanwhile get the same one. */
  readonly #pages = new Map<PageFormat, Promise<Buffer>>()

  constructor(dependencies: MetricsDependencies, options: MetricsOptions) {
    this.#log = dependencies.log.from('metrics-frontend.ts')
    this.#clock = dependencies.clock
    this.#formats = dependencies.formats
    this.#options = options
    this.#server = nodeHttp.createServer({ maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 30_000 })
    this.#server.maxConnections = 256
    this.#server.on('request', (request, response) => void this.#answer(request, response))
  }

  /** Where it listens, with the real port when 0 was asked for. */
  async listen(): Promise<{ address: string; port: number }> {
    const { address, port } = this.#options
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (reason) => {
        const message = `failed to listen for metrics at ${address}:${port}: ${messageOf(reason)}. Use --metrics-port for another port, or --allow-metrics=false.`
        reject(new ServerError('UNAVAILABLE', message))
      })
      this.#server.listen(port, address, resolve)
    })
    const at = this.#server.address() as AddressInfo
    return { address: at.address, port: at.port }
  }

  /** Ends every connection at once. Twice is fine. */
  async close(): Promise<void> {
    if (!this.#server.listening) return
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A body has no meaning here and is not read.
    request.resume()
    try {
      if (request.method !== 'GET') {
        send(response, 405, 'text/plain', encodeErrorBody('Method Not Allowed'))
        return
      }
      const path = (request.url ?? '').split('?')[0] ?? ''
      const format = this.#formatFor(request.headers.accept ?? '')
      // Triton answers every other path with an empty page.
      const page = path === '/metrics' || path === '/metrics/' ? await this.#currentPage(format) : Buffer.alloc(0)
      const accepted = request.headers['accept-encoding'] ?? ''
      const encoding = page.length < worthCompressingBytes ? null : preferenceFor(accepted, [...encodings.keys()])
      const compress = encoding === null ? undefined : encodings.get(encoding)
      response.setHeader('Vary', 'Accept, Accept-Encoding')
      if (encoding !== null) response.setHeader('Content-Encoding', encoding)
      send(response, 200, format.contentType, compress === undefined ? page : await compress(page))
    } catch (reason) {
      this.#log.error('metrics page failed', { reason: messageOf(reason) })
      if (!response.headersSent)
        send(response, 500, 'text/plain', encodeErrorBody('internal error of the metrics page'))
    }
  }

  #formatFor(accept: string): PageFormat {
    const fallback = this.#formats[0] as PageFormat
    const types = this.#formats.map(({ contentType }) => contentType.split(';')[0] as string)
    const wanted = preferenceFor(accept, types)
    return this.#formats[wanted === null ? 0 : types.indexOf(wanted)] ?? fallback
  }

  #currentPage(format: PageFormat): Promise<Buffer> {
    const underWay = this.#pages.get(format)
    if (underWay !== undefined) return underWay
    const page = this.#write(format).finally(() => this.#pages.delete(format))
    this.#pages.set(format, page)
    return page
  }

  async #write(format: PageFormat): Promise<Buffer> {
    const chunks: Buffer[] = []
    let text = ''
    let sliceEndNs = this.#clock.nowNs() + sliceNs
    for (const piece of format.pieces()) {
      text += piece
      if (text.length > chunkChars) {
        chunks.push(Buffer.from(text))
        text = ''
      }
      if (this.#clock.nowNs() < sliceEndNs) continue
      await new Promise((resolve) => setImmediate(resolve))
      sliceEndNs = this.#clock.nowNs() + sliceNs
    }
    chunks.push(Buffer.from(text))
    return Buffer.concat(chunks)
  }
}

function send(response: ServerResponse, status: number, type: string, body: Uint8Array): void {
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': body.length })
  response.end(body)
}
