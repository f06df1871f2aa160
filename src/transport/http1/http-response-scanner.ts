// Reads answers of HTTP/1.1 off a connection that has one request in flight. Heads repeat: one that was read before is
// compared, not read.

/** `bodyLength` -1: chunked; -2: until the connection closes. */
type KnownHead = {
  readonly bytes: Buffer
  readonly status: number
  readonly bodyLength: number
  readonly inferHeaderLength: number | null
  readonly isClosing: boolean
}

const maxHeadBytes = 64 * 1024
/** Of an error, as much is kept as fits on a screen. */
const maxErrorBytes = 4096

type State = 'head' | 'body' | 'chunk-size' | 'chunk' | 'chunk-end' | 'trailer'

export class HttpResponseScanner {
  readonly #keepsBodies: boolean
  #known: KnownHead | null = null
  #head: KnownHead | null = null
  #partial: Buffer = Buffer.alloc(0)
  #state: State = 'head'
  #left = 0
  #kept: Buffer[] = []
  #keptBytes = 0

  constructor(keepsBodies: boolean) {
    this.#keepsBodies = keepsBodies
  }

  get status(): number {
    return this.#head?.status ?? 0
  }

  get isClosing(): boolean {
    return this.#head?.isClosing ?? false
  }

  get inferHeaderLength(): number | null {
    return this.#head?.inferHeaderLength ?? null
  }

  /** The body, when bodies are kept or it is that of an error. */
  takeBody(): Buffer {
    const body = this.#kept.length === 1 ? (this.#kept[0] as Buffer) : Buffer.concat(this.#kept)
    this.#kept = []
    this.#keptBytes = 0
    return body
  }

  /** True when these bytes end the answer. Throws when they are no HTTP, or go on behind its end. */
  feed(chunk: Buffer): boolean {
    const bytes = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk])
    if (this.#partial.length > 0) this.#partial = Buffer.alloc(0)
    let at = 0
    for (;;) {
      const next = this.#step(bytes, at)
      if (next < 0) {
        this.#partial = Buffer.from(bytes.subarray(at))
        if (this.#partial.length > maxHeadBytes) throw new Error('the head of the answer has more than 64 KiB')
        return false
      }
      at = next
      if (this.#state === 'head') {
        if (at < bytes.length) throw new Error('the server sent more than one answer to one request')
        return true
      }
      if (at === bytes.length && !(this.#state === 'body' && this.#left === 0)) return false
    }
  }

  /** Where to go on, or -1 when more bytes are needed first. */
  #step(bytes: Buffer, at: number): number {
    if (this.#state === 'head') return this.#readHead(bytes, at)
    if (this.#state === 'body' || this.#state === 'chunk') return this.#readContent(bytes, at)
    if (this.#state !== 'chunk-end') return this.#readLine(bytes, at)
    if (bytes.length < at + 2) return -1
    this.#state = 'chunk-size'
    return at + 2
  }

  #readContent(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#keep(bytes, at, end)
    this.#left -= end - at
    if (this.#left === 0) this.#state = this.#state === 'body' ? 'head' : 'chunk-end'
    return end
  }

  /** The size of a chunk, or a trailer, of which the last is empty. */
  #readLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf('\r\n', at, 'latin1')
    if (end < 0) return -1
    if (this.#state === 'trailer') {
      if (end === at) this.#state = 'head'
      return end + 2
    }
    const text = bytes.toString('latin1', at, end).split(';')[0]?.trim() ?? ''
    if (!/^[\da-f]{1,8}$/i.test(text)) throw new Error(`'${text}' is no size of a chunk`)
    this.#left = Number.parseInt(text, 16)
    this.#state = this.#left === 0 ? 'trailer' : 'chunk'
    return end + 2
  }

  #readHead(bytes: Buffer, at: number): number {
    const known = this.#known
    let head: KnownHead
    const knownBytes = known?.bytes.length ?? 0
    if (
      known !== null &&
      bytes.length >= knownBytes + at &&
      bytes.compare(known.bytes, 0, knownBytes, at, at + knownBytes) === 0
    ) {
      head = known
    } else {
      const end = bytes.indexOf('\r\n\r\n', at, 'latin1')
      if (end < 0) return -1
      head = parseHead(Buffer.from(bytes.subarray(at, end + 4)))
      this.#known = head
    }
    const after = at + head.bytes.length
    // "100 Continue" and its like come before the answer.
    if (head.status < 200) return this.#readHead(bytes, after)
    this.#head = head
    this.#left = head.bodyLength
    if (head.bodyLength === -2) throw new Error('the answer says neither its length nor that it is chunked')
    this.#state = head.bodyLength === -1 ? 'chunk-size' : head.bodyLength === 0 ? 'head' : 'body'
    return after
  }

  #keep(bytes: Buffer, at: number, end: number): void {
    if (!this.#keepsBodies && (this.status < 300 || this.#keptBytes >= maxErrorBytes)) return
    this.#kept.push(Buffer.from(bytes.subarray(at, end)))
    this.#keptBytes += end - at
  }
}

function parseHead(bytes: Buffer): KnownHead {
  const text = bytes.toString('latin1')
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1]
  if (status === undefined) throw new Error(`expected an answer of HTTP/1.1, got '${text.slice(0, 60)}'`)
  const field = (name: string): string | undefined =>
    new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*\\r$`, 'im').exec(text)?.[1]
  const length = field('content-length')
  const isChunked = /chunked/i.test(field('transfer-encoding') ?? '')
  const isBodyless = status.startsWith('1') || status === '204' || status === '304'
  const inferLength = field('inference-header-content-length')
  return {
    bytes,
    status: Number(status),
    bodyLength: isBodyless ? 0 : isChunked ? -1 : length === undefined || !/^\d+$/.test(length) ? -2 : Number(length),
    inferHeaderLength: inferLength === undefined ? null : Number(inferLength),
    isClosing: /close/i.test(field('connection') ?? ''),
  }
}
