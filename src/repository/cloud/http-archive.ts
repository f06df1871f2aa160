import { ServerError } from '../../base/server-error.ts'
import { StalledError } from './transient-retry.ts'

export type ArchiveState = {
  /** The ETag, or what stands in for it. */
  readonly tag: string
  readonly sizeBytes: number | null
}

/** An answer that is no success; the status tells whether to try again. */
class HttpStatusError extends Error {
  readonly status: number

  constructor(status: number, what: string) {
    super(`the server answered ${status} to ${what}`)
    this.status = status
  }
}

/** One file behind HTTP: has it changed, and its bytes. */
export class HttpArchive {
  readonly #url: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #shown: string
  #isHeadRefused = false

  /** A user name and password in the URL become a header; `fetch` would refuse them. */
  constructor(url: string, shown: string) {
    const parsed = new URL(url)
    const user = `${decodeURIComponent(parsed.username)}:${decodeURIComponent(parsed.password)}`
    parsed.username = ''
    parsed.password = ''
    this.#url = parsed.href
    this.#shown = shown
    this.#headers = {
      // What is asked for is the file, byte by byte: a server must not compress it on the way.
      'accept-encoding': 'identity',
      ...(user === ':' ? {} : { authorization: `Basic ${Buffer.from(user).toString('base64')}` }),
    }
  }

  /** Nothing is downloaded. */
  async state(knownTag: string | null, timeoutMs: number): Promise<ArchiveState> {
    const signal = AbortSignal.timeout(timeoutMs)
    if (!this.#isHeadRefused) {
      const answer = await this.#fetch('HEAD', {}, signal)
      if (answer.ok) return stateOf(answer)
      // An address that is signed for GET alone refuses HEAD.
      if (![403, 405, 501].includes(answer.status)) throw new HttpStatusError(answer.status, `HEAD ${this.#shown}`)
      this.#isHeadRefused = true
    }
    const answer = await this.#fetch('GET', isETag(knownTag) ? { 'if-none-match': knownTag } : {}, signal)
    await answer.body?.cancel()
    if (answer.status === 304 && knownTag !== null) return { tag: knownTag, sizeBytes: null }
    if (!answer.ok) throw new HttpStatusError(answer.status, `GET ${this.#shown}`)
    return stateOf(answer)
  }

  /** Null when the server does not resume; fails when the file has changed since its state was asked for. */
  async read(offset: number, tag: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null> {
    const range = offset === 0 ? {} : { range: `bytes=${offset}-` }
    const answer = await this.#fetch('GET', isETag(tag) ? { ...range, 'if-match': tag } : range, signal)
    if (answer.status === 412 || (answer.ok && stateOf(answer).tag !== tag && answer.status === 200)) {
      await answer.body?.cancel()
      throw new ServerError('UNAVAILABLE', `it has changed while it was downloaded`)
    }
    if (answer.status === 416 || (answer.status === 200 && offset > 0)) {
      await answer.body?.cancel()
      return null
    }
    if (!answer.ok || answer.body === null) throw new HttpStatusError(answer.status, `GET ${this.#shown}`)
    return answer.body as AsyncIterable<Uint8Array>
  }

  async #fetch(method: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    try {
      return await fetch(this.#url, { method, headers: { ...this.#headers, ...headers }, signal, redirect: 'follow' })
    } catch (reason) {
      if ((reason as Error).name === 'TimeoutError') throw new StalledError(`${this.#shown} did not answer`)
      throw reason
    }
  }
}

/** Only a strong one stands for the bytes. */
const isETag = (tag: string | null): tag is string => tag !== null && tag.startsWith('"')

function stateOf({ headers }: Response): ArchiveState {
  const length = headers.get('content-length')
  const sizeBytes = length === null ? null : Number(length)
  const tag = headers.get('etag') ?? `modified ${headers.get('last-modified') ?? 'never'}, ${length ?? 'unknown'} bytes`
  return { tag, sizeBytes }
}
