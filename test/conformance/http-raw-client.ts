// HTTP spoken byte by byte, for requests that no client library would send.

import { connect, type Socket } from 'node:net'
import { until } from '../until.ts'

export type RawAnswer = {
  readonly status: number
  readonly reason: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** Reads answers from a connection, one after the other. */
export class RawConnection {
  readonly socket: Socket
  #received: Buffer = Buffer.alloc(0)
  #isClosed = false

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('data', (piece: Buffer) => {
      this.#received = Buffer.concat([this.#received, piece])
    })
    this.socket.on('close', () => {
      this.#isClosed = true
    })
    // A reset is a way of closing; what counts is what was read before it.
    this.socket.on('error', () => undefined)
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes)
  }

  /** 'closed' when the server hangs up before an answer is complete. */
  answer(method = 'GET'): Promise<RawAnswer | 'closed'> {
    const read = (): RawAnswer | 'closed' | null => {
      const end = this.#received.indexOf('\r\n\r\n')
      if (end >= 0) {
        const [statusLine = '', ...lines] = this.#received.toString('latin1', 0, end).split('\r\n')
        const headers: Record<string, string> = {}
        for (const line of lines) {
          const colon = line.indexOf(':')
          headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
        }
        const [, status, ...reason] = statusLine.split(' ')
        const isBodiless = method === 'HEAD' || status === '100'
        const bodyEnd = end + 4 + (isBodiless ? 0 : Number(headers['content-length'] ?? 0))
        if (this.#received.length >= bodyEnd) {
          const body = this.#received.subarray(end + 4, bodyEnd)
          this.#received = this.#received.subarray(bodyEnd)
          return { status: Number(status), reason: reason.join(' '), headers, body }
        }
      }
      return this.#isClosed ? 'closed' : null
    }
    return until(read, `an answer to ${method}`, { seen: () => this.#received.toString('latin1') })
  }

  /** Resolves when the server has closed the connection. */
  async closed(): Promise<void> {
    await until(() => this.#isClosed, 'the server to hang up', { seen: () => this.#received.toString('latin1') })
  }

  destroy(): void {
    this.socket.destroy()
  }
}

/** One request on a connection of its own. */
export async function exchange(port: number, wire: string | Buffer, method = 'GET'): Promise<RawAnswer | 'closed'> {
  const connection = new RawConnection(port)
  connection.send(wire)
  const answer = await connection.answer(method)
  connection.destroy()
  return answer
}
