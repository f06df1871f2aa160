// Clients that speak another protocol than their port: they get an answer that they can read, and the log one line of each kind.

import type { Log } from '../base/log.ts'
import { encodeGoaway, encodeSettings, errorCodes } from './http2/http2-format.ts'

type Protocol = 'HTTP' | 'gRPC' | 'TLS'
type PortProtocol = Exclude<Protocol, 'TLS'>

/** By the first bytes of a connection; null: none of these. */
function spokenProtocol(first: Uint8Array): Protocol | null {
  if (first[0] === 0x16 && first[1] === 0x03) return 'TLS'
  const start = String.fromCharCode(...first.subarray(0, 16))
  if (start.startsWith('PRI * HTTP/2.0')) return 'gRPC'
  return /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) [/*h]/.test(start) ? 'HTTP' : null
}

const plainAnswer = (text: string): Buffer =>
  Buffer.from(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: ${text.length + 1}\r\nConnection: close\r\n\r\n${text}\n`,
  )

/** A client of TLS shows `wrong version number` for an answer without TLS, which is the usual sign. */
const answers: Readonly<Record<Protocol, (text: string) => Buffer>> = {
  HTTP: plainAnswer,
  TLS: plainAnswer,
  gRPC: (text) => Buffer.concat([encodeSettings([]), encodeGoaway(0, errorCodes.HTTP_1_1_REQUIRED, text)]),
}

const ownName: Readonly<Record<PortProtocol, string>> = { HTTP: 'HTTP/1.1', gRPC: 'gRPC (HTTP/2)' }

export class MistakenClients {
  readonly #log: Log
  readonly #own: PortProtocol
  readonly #otherPort: () => number | null
  readonly #told = new Set<Protocol>()

  /** `otherPort`: where the other one of HTTP and gRPC is served; null: nowhere, or nobody knows. */
  constructor(log: Log, own: PortProtocol, otherPort: () => number | null = () => null) {
    this.#log = log.from('mistaken-clients.ts')
    this.#own = own
    this.#otherPort = otherPort
  }

  /** The last bytes for a client that begins so; null: it speaks as the port does, or what nobody knows. */
  answerTo(first: Uint8Array, clientAddress: string): Buffer | null {
    const spoken = spokenProtocol(first)
    if (spoken === null || spoken === this.#own) return null
    const text = this.#text(spoken)
    // Anybody may send this as often as he likes.
    if (!this.#told.has(spoken)) {
      this.#told.add(spoken)
      this.#log.warning(
        `a client speaks ${spoken} to the ${this.#own} port: ${text}; further such clients are not logged`,
        {
          client: clientAddress,
        },
      )
    }
    return answers[spoken](text)
  }

  #text(spoken: Protocol): string {
    if (spoken === 'TLS') return `this port speaks ${ownName[this.#own]} without TLS: connect without TLS`
    const port = this.#otherPort()
    const there = port === null ? '' : `; ${spoken} has port ${port}`
    return `this port speaks ${ownName[this.#own]} alone${there}`
  }
}
