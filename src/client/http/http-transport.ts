// One HTTP exchange with fetch: URL, headers, compression, deadline, retries, errors.

import { messageOf } from '../../base/server-error.ts'
import { CallScope, type RetryRule } from '../call-scope.ts'
import { connectWords } from '../connect-words.ts'
import type { ClientOptions } from '../inference-client.ts'
import type { CallOptions, Compression } from '../infer-request.ts'
import { codeOfHttp, InferenceError } from '../inference-error.ts'
import { ServerChoice } from '../server-choice.ts'
import { answerBytes } from './answer-bytes.ts'

export type FetchFunction = (url: string, init: RequestInit) => Promise<Response>

export type HttpExchange = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly rule: RetryRule
  readonly body?: Uint8Array<ArrayBuffer> | string
  readonly headers?: Readonly<Record<string, string>>
  readonly compression?: Compression
}

export class HttpTransport {
  readonly #fetch: FetchFunction
  readonly #servers: ServerChoice<string>
  readonly #options: Omit<ClientOptions, 'url'>
  /** The calls under way, for `close` to end. */
  readonly #calls = new Set<CallScope>()
  #isClosed = false

  constructor(fetch: FetchFunction, options: ClientOptions) {
    this.#fetch = fetch
    this.#servers = new ServerChoice(options.url, baseUrl)
    this.#options = options
  }

  /** The answer, whatever its status, once `read` has read it. */
  async exchange<Result>(
    exchange: HttpExchange,
    call: CallOptions,
    read: (response: Response) => Promise<Result>,
  ): Promise<Result> {
    const scope = this.#begin(call)
    try {
      const init = await this.#init(exchange, call, scope)
      return await this.#run(exchange, scope, async (base) => {
        const response = await this.#send(base, exchange.path, init)
        try {
          return await read(response)
        } catch (reason) {
          if (reason instanceof InferenceError) throw reason
          throw new InferenceError('UNREACHABLE', `the answer broke off: ${messageOf(reason)}`, { cause: reason })
        }
      })
    } finally {
      this.end(scope)
    }
  }

  /** The body of an answer. Throws PROTOCOL for one that is longer than `maxMessageBytes`. */
  async bytesOf(response: Response): Promise<Uint8Array> {
    const { maxMessageBytes = 2 ** 31 - 1 } = this.#options
    const { bytes, isWhole } = await answerBytes(response, maxMessageBytes)
    if (isWhole) return bytes
    throw new InferenceError('PROTOCOL', `the answer is longer than maxMessageBytes (${maxMessageBytes})`)
  }

  /** As `exchange`, for answers that come bit by bit: the deadline stays set until `end`. */
  async open(exchange: HttpExchange, call: CallOptions): Promise<{ response: Response; scope: CallScope }> {
    const scope = this.#begin(call)
    try {
      const init = await this.#init(exchange, call, scope)
      const response = await this.#run(exchange, scope, async (base) => {
        const answer = await this.#send(base, exchange.path, init)
        if (!answer.ok) throw await errorOf(answer)
        return answer
      })
      return { response, scope }
    } catch (reason) {
      this.end(scope)
      throw reason
    }
  }

  end(scope: CallScope): void {
    scope.end()
    this.#calls.delete(scope)
  }

  close(): void {
    this.#isClosed = true
    for (const scope of this.#calls) scope.abort(closedError())
  }

  #begin(call: CallOptions): CallScope {
    if (this.#isClosed) throw closedError()
    const scope = new CallScope(call, this.#options.timeoutMs)
    this.#calls.add(scope)
    return scope
  }

  /** True: another server may answer when one does not. */
  get hasSeveral(): boolean {
    return this.#servers.all.length > 1
  }

  #run<Result>({ rule }: HttpExchange, scope: CallScope, attempt: (base: string) => Promise<Result>): Promise<Result> {
    return scope.run(rule, this.#options.retries ?? this.#servers.retries, () => this.#servers.ask(attempt))
  }

  async #send(base: string, path: string, init: RequestInit): Promise<Response> {
    try {
      return await this.#fetch(base + path, init)
    } catch (reason) {
      throw new InferenceError('UNREACHABLE', `cannot reach ${base}: ${causeText(reason)}${reachHint(reason, base)}`, {
        cause: reason,
        isUnsent: isNeverSent(reason),
      })
    }
  }

  async #init(exchange: HttpExchange, call: CallOptions, scope: CallScope): Promise<RequestInit> {
    const { method, body, compression = this.#options.compression ?? 'none' } = exchange
    const isPacked = compression !== 'none' && body !== undefined
    return {
      method,
      headers: {
        // Node would else ask for gzip with every request; browsers decide for themselves and ignore this.
        'accept-encoding': compression === 'none' ? 'identity' : compression,
        ...this.#options.headers,
        ...call.headers,
        ...exchange.headers,
        ...(isPacked ? { 'content-encoding': compression } : {}),
      },
      ...(body === undefined ? {} : { body: isPacked ? await packed(body, compression) : body }),
      signal: scope.signal,
      redirect: 'error',
    }
  }
}

const closedError = (): InferenceError => new InferenceError('CANCELLED', 'the client was closed')

/** `localhost:8000` → `http://localhost:8000`, without a slash at the end. */
function baseUrl(url: string): string {
  const whole = /^[a-z][a-z+.-]*:\/\//i.test(url) ? url : `http://${url}`
  let parsed: URL
  try {
    parsed = new URL(whole)
  } catch (reason) {
    throw new InferenceError('INVALID_ARG', `'${url}' is not an address: expected http://host:port`, { cause: reason })
  }
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') {
    throw InferenceError.ofArgument(`'${url}' is not an address: expected http:// or https://`)
  }
  return (parsed.origin + parsed.pathname).replace(/\/+$/, '')
}

async function packed(body: Uint8Array<ArrayBuffer> | string, format: 'gzip' | 'deflate'): Promise<ArrayBuffer> {
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream(format))
  return new Response(stream).arrayBuffer()
}

/** Of the text of an error. */
const mostErrorBytes = 1024 * 1024

/** The error that an answer with a bad status stands for. */
export async function errorOf(response: Response): Promise<InferenceError> {
  const { status } = response
  const text = await answerBytes(response, mostErrorBytes).then(
    ({ bytes }) => new TextDecoder().decode(bytes),
    () => '',
  )
  return new InferenceError(codeOfHttp(status), errorText(text) ?? (text.trim() || `HTTP status ${status}`), { status })
}

/** `{"error":"…"}`, also as the one event of a stream; null when it is neither. */
function errorText(text: string): string | null {
  try {
    const body = JSON.parse(text.replace(/^data:/, '')) as unknown
    const error = typeof body === 'object' && body !== null && 'error' in body ? body.error : null
    return typeof error === 'string' ? error : null
  } catch {
    // A proxy between this client and the server may answer with a page of its own.
    return null
  }
}

const neverSentCodes: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** Node gives the reason in the cause, one for each address that it tried: all must say so. Browsers give no reason. */
function isNeverSent(reason: unknown): boolean {
  if (typeof reason !== 'object' || reason === null) return false
  if ('errors' in reason && Array.isArray(reason.errors) && reason.errors.length > 0) {
    return reason.errors.every(isNeverSent)
  }
  if ('code' in reason && neverSentCodes.has(reason.code)) return true
  return 'cause' in reason && isNeverSent(reason.cause)
}

/** `fetch failed` says nothing; its cause does. */
function causeText(reason: unknown): string {
  const cause = reason instanceof Error ? reason.cause : undefined
  if (cause instanceof AggregateError && cause.errors.length > 0) return causeText(cause.errors[0])
  return connectWords(cause instanceof Error ? messageOf(cause) : messageOf(reason))
}

/** What browsers say of every failure, a refusal of the server's CORS rules among them. */
const browserFailure = /^(Failed to fetch|NetworkError when attempting to fetch resource|Load failed)/
/** What a port with TLS does to plain text. */
const cutOff = /other side closed|ECONNRESET|socket hang up/

function reachHint(reason: unknown, base: string): string {
  const text = causeText(reason)
  if (browserFailure.test(text)) return ' (a page of another origin needs --http-cors-origin at the server)'
  const isPlain = !base.startsWith('https://')
  return isPlain && cutOff.test(text) ? ' (does this port speak TLS? then write https://)' : ''
}
