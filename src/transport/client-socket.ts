// Sockets of the load generator. Each socket reads into one buffer, without delay, over TLS where that is asked for.

import { connect as connectPlain, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export type TlsTarget = {
  readonly ca: string | null
  readonly cert: string | null
  readonly key: string | null
  readonly isPeerVerified: boolean
  readonly isHostVerified: boolean
}

export type LoadTarget = {
  readonly host: string
  readonly port: number
  readonly tls: TlsTarget | null
}

type SocketEvents = {
  readonly onConnect: () => void
  /** The bytes are valid during the call only. */
  readonly onBytes: (bytes: Buffer) => void
  /** Once, however it ended. */
  readonly onEnd: (reason: string) => void
}

const readBytes = 64 * 1024

export function openSocket(target: LoadTarget, protocol: 'http/1.1' | 'h2', events: SocketEvents): Socket {
  const { host, port, tls } = target
  const socket = tls === null ? plainSocket(host, port, events) : tlsSocket(host, port, tls, protocol, events)
  let reason = 'the server closed the connection'
  socket.setNoDelay(true)
  socket.on('error', (error) => (reason = errorText(error, `${host}:${port}`)))
  socket.on('close', () => events.onEnd(reason))
  return socket
}

function plainSocket(host: string, port: number, events: SocketEvents): Socket {
  // One buffer for all reads: a new buffer per read would cost the load generator much CPU.
  const buffer = Buffer.allocUnsafeSlow(readBytes)
  const callback = (count: number): boolean => {
    events.onBytes(count === readBytes ? buffer : buffer.subarray(0, count))
    return true
  }
  return connectPlain({ host, port, onread: { buffer, callback } }, events.onConnect)
}

function tlsSocket(
  host: string,
  port: number,
  tls: TlsTarget,
  protocol: 'http/1.1' | 'h2',
  events: SocketEvents,
): Socket {
  const socket = connectTls(
    {
      host,
      port,
      ALPNProtocols: [protocol],
      rejectUnauthorized: tls.isPeerVerified,
      ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }),
      ...(tls.ca === null ? {} : { ca: tls.ca }),
      ...(tls.cert === null ? {} : { cert: tls.cert }),
      ...(tls.key === null ? {} : { key: tls.key }),
      ...(tls.isHostVerified ? {} : { checkServerIdentity: () => undefined }),
    },
    events.onConnect,
  )
  socket.on('data', events.onBytes)
  return socket
}

function errorText(error: NodeJS.ErrnoException | AggregateError, address: string): string {
  // Several addresses of one name were tried.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  const { message } = first instanceof Error ? first : error
  return message.includes(address) ? message : `${address}: ${message}`
}
