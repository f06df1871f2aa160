// Two readers of HTTP/1.1 side by side: a connection of ours without a socket, and the parser of node:http (llhttp, strict).

import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import { ManualClock } from '../fakes/manual-clock.ts'
import { MistakenClients } from '../../src/transport/mistaken-clients.ts'
import { silentLog } from '../../src/base/log.ts'
import { ClientMemory } from '../../src/transport/client-memory.ts'
import { HttpConnection } from '../../src/transport/http1/http-connection.ts'
import { HttpResponse, type HttpRequest } from '../../src/transport/http1/http-message.ts'

export type ReadRequest = {
  readonly method: string
  readonly target: string
  readonly headers: readonly string[]
  readonly body: string
}

/** `isOpen`: whether it would read on; false when it closed the connection, or would. */
export type Reading = { readonly requests: readonly ReadRequest[]; readonly isOpen: boolean }

/** As much of a socket as a connection uses. Nothing is sent anywhere. */
class SilentSocket {
  isOpen = true
  readonly remoteAddress = ''
  on(): this {
    return this
  }
  pause(): void {}
  resume(): void {}
  cork(): void {}
  uncork(): void {}
  write(): boolean {
    return true
  }
  end(): void {
    this.isOpen = false
  }
  destroy(): void {
    this.isOpen = false
  }
  destroySoon(): void {
    this.isOpen = false
  }
}

/** `pieces`: the bytes as they arrive. Each request is answered at once. */
export function readByUs(pieces: readonly Buffer[]): Reading {
  const requests: ReadRequest[] = []
  const socket = new SilentSocket()
  const respond = (request: HttpRequest): void => {
    const { method, target, headers, body } = request
    requests.push({ method, target, headers, body: body.toString('latin1') })
    request.respond(new HttpResponse(200, 'text/plain'))
  }
  const connection = new HttpConnection(
    {
      clock: new ManualClock(),
      service: {
        admit: () => null,
        handle: respond,
        noteFault: (_, reason) => {
          throw reason
        },
        refuseMemory: () => new HttpResponse(503, 'text/plain'),
        refuseBody: () => new HttpResponse(400, 'text/plain', [], { closesConnection: true }),
        refuseStalledBody: () => new HttpResponse(408, 'text/plain', [], { closesConnection: true }),
        refuseMalformed: () => null,
        refuseHead: (status) => new HttpResponse(status, 'text/plain', [], { closesConnection: true }),
      },
      clientMemory: new ClientMemory(),
      mistaken: new MistakenClients(silentLog, 'HTTP'),
      isDraining: false,
      bodyLimitBytes: 1024 * 1024,
      maxHeaderBytes: 16 * 1024,
      leastBodyBytes: 1,
    },
    socket as unknown as Socket,
  )
  for (const piece of pieces) if (socket.isOpen) connection.take(piece)
  return { requests, isOpen: socket.isOpen }
}

type NodeParser = {
  initialize(kind: number, resource: object, maxHeaderBytes: number, leniency: number): void
  execute(bytes: Buffer): number | Error
  [callback: number]: unknown
}
type NodeParserClass = (new () => NodeParser) &
  Readonly<Record<'REQUEST' | 'kOnHeaders' | 'kOnHeadersComplete' | 'kOnBody' | 'kOnMessageComplete', number>>

const { HTTPParser, methods } = createRequire(import.meta.url)('_http_common') as {
  HTTPParser: NodeParserClass
  methods: readonly string[]
}
const noLeniency = 0

/** Reads the same bytes with node:http's parser, which counts as many requests as it can before its first complaint. */
export class NodeReader {
  readonly #parser = new HTTPParser()
  #requests: ReadRequest[] = []
  #early: string[] = []
  #earlyTarget = ''
  #body = ''
  #head: Omit<ReadRequest, 'body'> | null = null
  #isUpgrade = false

  constructor() {
    // Trailers come this way too, and once they did, every later head of the connection.
    this.#parser[HTTPParser.kOnHeaders] = (headers: string[], target: string) => {
      if (this.#head !== null) return
      this.#early.push(...headers)
      this.#earlyTarget += target
    }
    this.#parser[HTTPParser.kOnHeadersComplete] = (
      _major: number,
      _minor: number,
      headers: string[] | undefined,
      method: number,
      target: string | undefined,
      _status: unknown,
      _message: unknown,
      isUpgrade: boolean,
    ) => {
      const all = [...this.#early, ...(headers ?? [])]
      this.#head = { method: methods[method] ?? '', target: this.#earlyTarget + (target ?? ''), headers: all }
      this.#isUpgrade ||= isUpgrade
      return 0
    }
    this.#parser[HTTPParser.kOnBody] = (piece: Buffer) => {
      this.#body += piece.toString('latin1')
    }
    this.#parser[HTTPParser.kOnMessageComplete] = () => {
      if (this.#head !== null) this.#requests.push({ ...this.#head, body: this.#body })
      this.#begin()
    }
  }

  /** `isUpgrade`: it asked for another protocol, and what follows is none of the parser's business. */
  read(bytes: Buffer): Reading & { readonly isUpgrade: boolean; readonly complaint: string } {
    this.#parser.initialize(HTTPParser.REQUEST, {}, 0, noLeniency)
    this.#requests = []
    this.#isUpgrade = false
    this.#begin()
    const outcome = this.#parser.execute(bytes)
    const complaint = outcome instanceof Error ? String((outcome as Error & { reason?: string }).reason ?? outcome) : ''
    return { requests: this.#requests, isOpen: complaint === '', isUpgrade: this.#isUpgrade, complaint }
  }

  #begin(): void {
    this.#head = null
    this.#early = []
    this.#earlyTarget = ''
    this.#body = ''
  }
}
