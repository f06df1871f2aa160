import type { HttpPort } from '../../src/ports/http/http-port.ts'
import { ClientMemory, ConnectionMemory } from '../../src/transport/client-memory.ts'
import { RequestMemory } from '../../src/transport/request-memory.ts'
import {
  reasonOf,
  type HttpRequest,
  type HttpResponse,
  type ResponseStream,
} from '../../src/transport/http1/http-message.ts'

export type InjectedInit = {
  readonly method: string
  readonly path: string
  readonly headers?: readonly (readonly [string, string])[]
  readonly body?: string | Uint8Array
  /** Gets the request as soon as it is made. `disconnect()` acts like a client that goes away. */
  readonly onStart?: (request: { disconnect(): void }) => void
}

export type InjectedAnswer = {
  readonly status: number
  readonly reason: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** False when a streamed answer broke off. */
  readonly isWhole: boolean
}

/** A request that came through no socket; its answer goes to a callback. */
export class InjectedRequest implements HttpRequest {
  readonly method: string
  readonly target: string
  readonly headers: readonly string[]
  readonly body: Buffer
  readonly remoteAddress = ''
  readonly memory = new RequestMemory(new ConnectionMemory(new ClientMemory()))
  caller: unknown = null
  onDisconnect: (() => void) | null = null
  readonly #onAnswer: (answer: InjectedAnswer) => void
  #isDisconnected = false

  constructor(init: InjectedInit, onAnswer: (answer: InjectedAnswer) => void) {
    this.method = init.method
    this.target = init.path
    this.headers = (init.headers ?? []).flat()
    this.body = Buffer.from(init.body ?? '')
    this.#onAnswer = onAnswer
    init.onStart?.(this)
  }

  respond(response: HttpResponse): void {
    const body = this.method === 'HEAD' ? Buffer.alloc(0) : Buffer.concat(response.parts)
    response.release?.()
    const headers: Record<string, string> = {
      'content-type': response.contentType,
      'content-length': String(response.bodyBytes),
    }
    for (let i = 0; i < response.headers.length; i += 2) {
      headers[(response.headers[i] as string).toLowerCase()] = response.headers[i + 1] as string
    }
    if (response.closesConnection) headers['connection'] = 'close'
    this.onDisconnect = null
    if (!this.#isDisconnected)
      this.#onAnswer({ status: response.status, reason: reasonOf(response.status), headers, body, isWhole: true })
  }

  /** The pieces are put together: the test sees the answer when it is whole. */
  stream(head: HttpResponse): ResponseStream {
    const pieces: Uint8Array[] = []
    const finish = (isWhole: boolean): void => {
      this.onDisconnect = null
      if (this.#isDisconnected) return
      const headers: Record<string, string> = { 'content-type': head.contentType, 'transfer-encoding': 'chunked' }
      for (let i = 0; i < head.headers.length; i += 2) {
        headers[(head.headers[i] as string).toLowerCase()] = head.headers[i + 1] as string
      }
      const body = Buffer.concat(pieces)
      this.#onAnswer({ status: head.status, reason: reasonOf(head.status), headers, body, isWhole })
    }
    return {
      unreadBytes: 0,
      onDrain: null,
      write: (piece) => pieces.push(piece) > 0,
      end: () => finish(true),
      abort: () => finish(false),
    }
  }

  noteFault: (reason: unknown) => void = () => undefined

  disconnect(): void {
    this.#isDisconnected = true
    this.memory.end()
    const { onDisconnect } = this
    this.onDisconnect = null
    onDisconnect?.()
  }
}

/** Answers one request without a socket. The transport is what knows the limit of a body: here the caller says it. */
export function inject(port: HttpPort, init: InjectedInit, bodyLimitBytes = Infinity): Promise<InjectedAnswer> {
  return new Promise((resolve) => {
    const request = new InjectedRequest(init, resolve)
    request.noteFault = (reason) => port.noteFault(request, reason)
    const receive = (refusal: HttpResponse | null): void => {
      if (refusal !== null) request.respond(refusal)
      else if (request.body.length <= bodyLimitBytes) port.handle(request)
      else request.respond(port.refuseBody(request, 'too-large', request.body.length))
    }
    const verdict = port.admit(request)
    if (verdict instanceof Promise) void verdict.then(receive)
    else receive(verdict)
  })
}
