// `GET /metrics`, on a port of its own.

import { promisify } from 'node:util'
import { brotliCompress, constants, deflate, gzip } from 'node:zlib'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { inSlices } from '../../base/run-in-slices.ts'
import { messageOf } from '../../base/server-error.ts'
import { messageResponse } from '../../ports/http/error-response.ts'
import { acting, everyOtherPath, get, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { headerOf, HttpResponse, plainType, type HttpRequest } from '../../transport/http1/http-message.ts'
import { preferenceFor } from './accept-header.ts'
import { visibleMetrics } from './visible-metrics.ts'

type PageFormat = {
  /** `type/subtype; parameter=value…` */
  readonly contentType: string
  /** The page, piece by piece. */
  pieces(): Iterable<string>
}

export type MetricsParts = {
  readonly clock: Clock
  readonly log: Log
  /** The first is the default. */
  readonly formats: readonly PageFormat[]
}

/** The page is written in slices of this time; other requests run on the main thread in between. */
const sliceNs = 4e6
/** Pieces are joined into buffers of about this size, so that the last step of a long page is no longer than others. */
const chunkChars = 64 * 1024
/** Below this, compressing costs more than it saves. */
const worthCompressingBytes = 1024

const [gzipAsync, deflateAsync, brotliAsync] = [promisify(gzip), promisify(deflate), promisify(brotliCompress)]
/** In the order of preference for a client that has none. All of them run in Node's thread pool. */
const encodings: ReadonlyMap<string, (page: Buffer) => Promise<Buffer>> = new Map([
  ['gzip', (page: Buffer) => gzipAsync(page)],
  ['br', (page: Buffer) => brotliAsync(page, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })],
  ['deflate', (page: Buffer) => deflateAsync(page)],
])

export function metricsRoutes(parts: MetricsParts): Route[] {
  const pages = new MetricsPages(parts)
  const show: RouteHandler = (request, _name, _version, caller) => {
    void pages.answer(request, async (format) =>
      inSlices(parts.clock, visibleMetrics(await pages.current(format), caller)),
    )
  }
  // Triton answers every other path with an empty page.
  const showNothing = (request: HttpRequest): void => void pages.answer(request, () => Buffer.alloc(0))
  return [
    get('/metrics', 'statistics', show, plainType),
    get('/metrics/', 'statistics', show, plainType),
    get(everyOtherPath, 'statistics', showNothing, plainType),
  ].map((route) => acting('metrics', route))
}

class MetricsPages {
  readonly #log: Log
  readonly #clock: Clock
  readonly #formats: readonly PageFormat[]
  /** The pages that are being written. A request that comes meanwhile gets the same page. */
  readonly #pages = new Map<PageFormat, Promise<Buffer>>()

  constructor(parts: MetricsParts) {
    this.#log = parts.log.from('metrics-routes.ts')
    this.#clock = parts.clock
    this.#formats = parts.formats
  }

  async answer(request: HttpRequest, write: (format: PageFormat) => Buffer | Promise<Buffer>): Promise<void> {
    const { headers } = request
    try {
      const format = this.#formatFor(headerOf(headers, 'accept') ?? '')
      const page = await write(format)
      const accepted = headerOf(headers, 'accept-encoding') ?? ''
      const encoding = page.length < worthCompressingBytes ? null : preferenceFor(accepted, [...encodings.keys()])
      const compress = encoding === null ? undefined : encodings.get(encoding)
      const body = compress === undefined ? page : await compress(page)
      const vary = ['Vary', 'Accept, Accept-Encoding']
      const named = encoding === null ? vary : [...vary, 'Content-Encoding', encoding]
      request.respond(new HttpResponse(200, format.contentType, [body], { headers: named }))
    } catch (reason) {
      this.#log.error('metrics page failed', { reason: messageOf(reason) })
      request.respond(messageResponse(500, 'internal error of the metrics page', plainType))
    }
  }

  #formatFor(accept: string): PageFormat {
    const fallback = this.#formats[0] as PageFormat
    const types = this.#formats.map(({ contentType }) => contentType.split(';')[0] as string)
    const wanted = preferenceFor(accept, types)
    return this.#formats[wanted === null ? 0 : types.indexOf(wanted)] ?? fallback
  }

  current(format: PageFormat): Promise<Buffer> {
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
