// -u: HOST:PORT, or an address with http:// or https:// before it, and for HTTP an optional base path.

import type { LoadTarget, TlsTarget } from '../transport/client-socket.ts'
import { failedToParse } from './word-reader.ts'

type ServerUrl = {
  readonly host: string
  readonly port: number
  /** '' or '/under/which'. */
  readonly basePath: string
}

export function parseServerUrl(url: string, protocol: 'http' | 'grpc'): ServerUrl {
  const hasScheme = /^https?:\/\//.test(url)
  const whole = hasScheme ? url : `http://${url}`
  const parsed = URL.canParse(whole) ? new URL(whole) : null
  const basePath = parsed?.pathname.replace(/\/+$/, '') ?? ''
  // Without a scheme a missing port would mean 80, which is nearly always a mistake.
  const isWhole = hasScheme || /^[^/]*:\d+(\/|$)/.test(url)
  if (parsed === null || parsed.port === '0' || !isWhole || (protocol === 'grpc' && basePath !== '')) {
    throw failedToParse('url', `The value must be HOST:PORT, got '${url}'.`)
  }
  const port = Number(parsed.port) || (parsed.protocol === 'https:' ? 443 : 80)
  return { host: parsed.hostname.replace(/^\[|\]$/g, ''), port, basePath }
}

/** A host name may have two addresses, and the server may listen on only one: Node tries both. */
export function targetOf(url: string, protocol: 'http' | 'grpc', tls: TlsTarget | null): LoadTarget {
  const { host, port } = parseServerUrl(url, protocol)
  return { host, port, tls }
}

export const bracketed = (host: string): string => (host.includes(':') ? `[${host}]` : host)
