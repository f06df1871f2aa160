// The command line of `galatea fleet`.

import { parseArgs } from 'node:util'
import { ServerError } from '../base/server-error.ts'
import { parseDiscovery, parseUpstream, zoneNamed, type Upstream } from './fleet-member.ts'
import type { EnvoySettings } from './xds-resources.ts'

export type FleetOptions = {
  readonly upstreams: readonly Upstream[]
  /** '' for none. */
  readonly membersFile: string
  readonly mostMembers: number
  /** Sent with every question to a server. */
  readonly headers: Readonly<Record<string, string>>
  readonly address: string
  readonly xdsPort: number
  readonly httpPort: number
  readonly allowedHosts: readonly string[]
  /** Of the Envoy that is started with the bootstrap; '' for none. */
  readonly zone: string
  readonly envoy: EnvoySettings
}

export const fleetUsage = `Usage: galatea fleet --upstream http://a:8000,http://b:8000 [options]
       galatea fleet --bootstrap [options]     prints the configuration that Envoy is started with

The control plane of many servers: it tells Envoy which server has which model and how loaded each server is. Envoy carries every request.

  --upstream URL,URL      the servers; http://HOST:PORT?grpc=PORT where gRPC is not at the port after HTTP,
                          http://HOST:PORT?zone=NAME for its zone: requests stay in the zone of their Envoy while they can. May be repeated
  --discover dns:NAME:PORT  every address of a name is a server, as of a headless service
  --members-file FILE     one URL per line; read again when it changes
  --header NAME:VALUE     sent with every question to a server, as a key. May be repeated
  --listen HOST:PORT      where Envoy takes requests over HTTP and gRPC (0.0.0.0:10000)
  --address HOST          where the control plane itself listens (127.0.0.1)
  --xds-port N            the control plane for Envoy (18000)
  --http-port N           GET /v2/fleet for people and programs (18001)
  --allowed-hosts NAMES   names in Host that the HTTP port answers beside those of this machine
  --pick needed|all       needed: the picker chooses where the path does not name the model, and for sequences (default); all: always
  --max-members N         the most servers (1000)
  --retry-body-bytes N    the largest body that Envoy keeps in order to repeat a request (4194304)
  --retry-budget PERCENT  of the requests under way that may be repeats (50)
  --zone NAME             with --bootstrap: the zone of this Envoy; servers of the zone come before others
  --help
`

const options = {
  upstream: { type: 'string', multiple: true },
  discover: { type: 'string', multiple: true },
  'members-file': { type: 'string' },
  header: { type: 'string', multiple: true },
  listen: { type: 'string' },
  address: { type: 'string' },
  'xds-port': { type: 'string' },
  'http-port': { type: 'string' },
  'allowed-hosts': { type: 'string' },
  pick: { type: 'string' },
  'max-members': { type: 'string' },
  'retry-body-bytes': { type: 'string' },
  'retry-budget': { type: 'string' },
  zone: { type: 'string' },
  bootstrap: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

/** The head of a body that the picker sees. */
const headBytes = 64 * 1024
export const controlCluster = 'galatea_fleet'

type FleetCommand = { readonly kind: 'help' } | { readonly kind: 'bootstrap' | 'run'; readonly options: FleetOptions }

/** Throws ServerError, or what parseArgs throws. */
export function parseFleetCommand(args: readonly string[]): FleetCommand {
  const { values } = parseArgs({ args: [...args], options })
  if (values.help === true) return { kind: 'help' }
  const upstreams = [
    ...(values.upstream ?? []).flatMap((list) => list.split(',')).filter((text) => text !== '').map(parseUpstream),
    ...(values.discover ?? []).map(parseDiscovery),
  ] // prettier-ignore
  const membersFile = values['members-file'] ?? ''
  const isBootstrap = values.bootstrap === true
  if (upstreams.length === 0 && membersFile === '' && !isBootstrap) {
    throw wrong(
      'no servers: name them with --upstream http://HOST:PORT, --discover dns:NAME:PORT or --members-file FILE',
    )
  }
  const pick = values.pick ?? 'needed'
  if (pick !== 'needed' && pick !== 'all') throw wrong(`--pick: expected needed or all, got '${pick}'`)
  const { host, port } = hostAndPort(values.listen ?? '0.0.0.0:10000')
  return {
    kind: isBootstrap ? 'bootstrap' : 'run',
    options: {
      upstreams,
      membersFile,
      mostMembers: whole('max-members', values['max-members'] ?? '1000', 1, 10_000),
      headers: headersOf(values.header ?? []),
      address: values.address ?? '127.0.0.1',
      xdsPort: whole('xds-port', values['xds-port'] ?? '18000', 0, 65_535),
      httpPort: whole('http-port', values['http-port'] ?? '18001', 0, 65_535),
      allowedHosts: (values['allowed-hosts'] ?? '').split(',').filter((name) => name !== ''),
      zone: zoneNamed('--zone', values.zone ?? ''),
      envoy: {
        listenAddress: host,
        listenPort: port,
        picksAll: pick === 'all',
        controlCluster,
        retryBodyBytes: whole('retry-body-bytes', values['retry-body-bytes'] ?? '4194304', 0, 2 ** 30),
        retryBudgetPercent: whole('retry-budget', values['retry-budget'] ?? '50', 0, 100),
        headBytes,
      },
    },
  }
}

const wrong = (text: string): ServerError => new ServerError('INVALID_ARG', text)

function whole(name: string, text: string, least: number, most: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= least && value <= most) return value
  throw wrong(`--${name}: expected a whole number from ${least} to ${most}, got '${text}'`)
}

function hostAndPort(text: string): { host: string; port: number } {
  const [, host = '', port = ''] = /^(.+):(\d+)$/.exec(text) ?? []
  if (host === '') throw wrong(`--listen: expected HOST:PORT, as 0.0.0.0:10000, got '${text}'`)
  return { host: host.replace(/^\[|\]$/g, ''), port: whole('listen', port, 1, 65_535) }
}

function headersOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(':')
      if (at < 1) throw wrong(`--header: expected NAME:VALUE`)
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    }),
  )
}
