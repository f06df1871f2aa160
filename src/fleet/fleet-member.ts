// The servers of a fleet: from a list, a file or a name in DNS to addresses that Envoy can connect to.

import { ServerError } from '../base/server-error.ts'

/** A server, by the address that Envoy connects to. */
export type FleetMember = {
  /** `address:port` of HTTP: what the picker and people call the server. */
  readonly key: string
  readonly address: string
  readonly httpPort: number
  /** Null: the server has no gRPC port. */
  readonly grpcPort: number | null
  /** What fails together: a zone of a cloud, a rack; '' where nobody said. */
  readonly zone: string
}

/** Where servers are: `http://host:port`, with the gRPC port as `?grpc=8001` where it is not the port after it, and `zone=…` for its zone. */
export type Upstream = {
  readonly host: string
  readonly httpPort: number
  readonly grpcPort: number | null
  readonly zone: string
  /** True: every address of the name is a server; false: the name is one server. */
  readonly isEveryAddress: boolean
}

const expected = 'expected http://HOST:PORT, or http://HOST:PORT?grpc=PORT where gRPC is not at the port after it'

/** Throws ServerError. */
export function parseUpstream(text: string): Upstream {
  const url = URL.parse(text)
  if (
    url === null ||
    url.protocol !== 'http:' ||
    url.hostname === '' ||
    (url.pathname !== '/' && url.pathname !== '')
  ) {
    throw new ServerError('INVALID_ARG', `upstream '${text}': ${expected}`)
  }
  const httpPort = url.port === '' ? 80 : Number(url.port)
  return {
    host: hostOf(url),
    httpPort,
    grpcPort: grpcPortOf(text, url, httpPort),
    zone: zoneOf(text, url),
    isEveryAddress: false,
  }
}

/** `dns:name:port[?grpc=port]`. Throws ServerError. */
export function parseDiscovery(text: string): Upstream {
  const url = URL.parse(`http://${text.replace(/^dns:/, '')}`)
  if (!text.startsWith('dns:') || url === null || url.port === '') {
    throw new ServerError('INVALID_ARG', `--discover '${text}': expected dns:NAME:PORT, as dns:galatea-headless:8000`)
  }
  const httpPort = Number(url.port)
  return {
    host: hostOf(url),
    httpPort,
    grpcPort: grpcPortOf(text, url, httpPort),
    zone: zoneOf(text, url),
    isEveryAddress: true,
  }
}

const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '')

function grpcPortOf(text: string, url: URL, httpPort: number): number | null {
  const given = url.searchParams.get('grpc')
  if (given === null) return httpPort < 65_535 ? httpPort + 1 : null
  if (given === 'none') return null
  const port = Number(given)
  if (Number.isInteger(port) && port > 0 && port <= 65_535) return port
  throw new ServerError('INVALID_ARG', `upstream '${text}': grpc must be a port or none, got '${given}'`)
}

const zoneOf = (text: string, url: URL): string => zoneNamed(`upstream '${text}'`, url.searchParams.get('zone') ?? '')

/** Throws ServerError, which names `where` the zone stands. */
export function zoneNamed(where: string, zone: string): string {
  if (/^[\w.-]{0,63}$/.test(zone)) return zone
  throw new ServerError('INVALID_ARG', `${where}: zone must have at most 63 letters, digits, dots and dashes, got '${zone.slice(0, 80)}'`) // prettier-ignore
}

/** One upstream per line; empty lines and lines after `#` are no upstreams. Throws ServerError. */
export const parseMembersFile = (text: string): Upstream[] =>
  text
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => line !== '')
    .map(parseUpstream)

export const membersAt = (
  { httpPort, grpcPort, zone, isEveryAddress }: Upstream,
  addresses: readonly string[],
): FleetMember[] =>
  (isEveryAddress ? addresses : addresses.slice(0, 1)).map((address) => ({
    key: endpointText(address, httpPort),
    address,
    httpPort,
    grpcPort,
    zone,
  }))

export const endpointText = (address: string, port: number): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
