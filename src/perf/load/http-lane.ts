// One keep-alive connection of HTTP/1.1 with one request in flight. A connection that the server closed is made again
// for the next request.

import type { Socket } from 'node:net'
import { messageOf } from '../../base/server-error.ts'
import { HttpResponseScanner } from '../../transport/http1/http-response-scanner.ts'
import { Lane, type LaneSink } from './lane.ts'
import { stampedHead, type PreparedRequest, type SequenceStamp } from './prepared-request.ts'
import { openSocket, type LoadTarget } from '../../transport/client-socket.ts'

export class HttpLane extends Lane {
  readonly #target: LoadTarget
  readonly #keepsBodies: boolean
  #socket: Socket | null = null
  #scanner: HttpResponseScanner
  #isBusy = false
  #onOpened: ((failure: Error | null) => void) | null = null

  constructor(index: number, sink: LaneSink, target: LoadTarget, keepsBodies: boolean) {
    super(index, sink)
    this.#target = target
    this.#keepsBodies = keepsBodies
    this.#scanner = new HttpResponseScanner(keepsBodies)
  }

  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onOpened = (failure) => (failure === null ? resolve() : reject(failure))
      this.#connect()
    })
  }

  // HOT: once per request. One write, no copy but of a sequence's head.
  protected transmit(request: PreparedRequest, stamp: SequenceStamp | null): void {
    const socket = this.#socket ?? this.#connect()
    this.#isBusy = true
    const head = stamp === null ? request.head : stampedHead(request, stamp)
    if (request.tail.length === 0) {
      socket.write(head)
      return
    }
    socket.cork()
    socket.write(head)
    socket.write(request.tail)
    socket.uncork()
  }

  close(): void {
    this.#isBusy = false
    this.#socket?.destroy()
    this.#socket = null
  }

  #connect(): Socket {
    this.#scanner = new HttpResponseScanner(this.#keepsBodies)
    const socket = openSocket(this.#target, 'http/1.1', {
      onConnect: () => this.#opened(null),
      onBytes: (bytes) => this.#read(bytes),
      onEnd: (reason) => {
        // A socket that was replaced says nothing about the request in flight.
        if (this.#socket !== socket) return
        this.#socket = null
        this.#opened(new Error(reason))
        this.#fail(reason)
      },
    })
    this.#socket = socket
    return socket
  }

  #opened(failure: Error | null): void {
    const tell = this.#onOpened
    this.#onOpened = null
    tell?.(failure)
  }

  #read(bytes: Buffer): void {
    if (!this.#isBusy) return this.#drop('the server sent bytes that nothing was asked for')
    if (this.firstByteMs === 0) this.firstByteMs = performance.now()
    const scanner = this.#scanner
    try {
      if (!scanner.feed(bytes)) return
    } catch (reason) {
      return this.#drop(messageOf(reason))
    }
    this.#isBusy = false
    if (scanner.isClosing) {
      this.#socket?.destroy()
      this.#socket = null
    }
    const { status } = scanner
    const nowMs = performance.now()
    if (status !== 200) {
      this.sink.onDone(this, nowMs, { text: errorText(status, scanner.takeBody()), isConnection: false })
      return
    }
    if (this.#keepsBodies) {
      this.body = scanner.takeBody()
      this.bodyHeaderLength = scanner.inferHeaderLength
    }
    this.sink.onResponse(this, nowMs, false)
    this.sink.onDone(this, nowMs, null)
  }

  #drop(reason: string): void {
    const socket = this.#socket
    this.#socket = null
    socket?.destroy()
    this.#fail(reason)
  }

  #fail(text: string): void {
    if (!this.#isBusy) return
    this.#isBusy = false
    this.sink.onDone(this, performance.now(), { text, isConnection: true })
  }
}

function errorText(status: number, body: Buffer): string {
  const text = body.toString('utf8')
  try {
    const { error } = JSON.parse(text) as { error?: unknown }
    if (typeof error === 'string') return `[${status}] ${error}`
  } catch {
    // The text is not JSON, and is shown as it is.
  }
  return `[${status}] ${text.slice(0, 300)}`
}
