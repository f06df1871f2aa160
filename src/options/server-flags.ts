// The server as a whole: its name, its defaults, its end, its logs.

import { homedir } from 'node:os'
import path from 'node:path'
import { flag, ours, type FlagValues, type Surroundings } from './flag.ts'
import { parseProxies } from '../access/caller-address.ts'
import { messageOf } from '../base/server-error.ts'
import { badOption, boolean, byteSize, choice, formOf, integer, seconds, text, verbosity } from './flag-forms.ts'

/** The version that answers `GET /v2` with --triton-defaults: the one whose behaviour was recorded. */
const tritonVersion = '2.51.0'

const hasTritonDefaults = (flags: FlagValues): boolean => flags.isOn('triton-defaults')

/** In lower case, as requests are asked for it. */
function headerName(flag: string, given: string): string {
  if (/^[\w!#$%&'*+.^`|~-]*$/.test(given)) return given.toLowerCase()
  throw badOption(flag, `invalid argument for --${flag}\nexpected the name of a header, got '${given.slice(0, 100)}'`)
}

function proxies(flag: string, given: string): string {
  try {
    parseProxies(given)
    return given
  } catch (reason) {
    throw badOption(flag, `invalid argument for --${flag}\n${messageOf(reason)}`)
  }
}

export const serverFlags = [
  flag('id', text('NAME'), 'galatea', { tritonDefault: 'triton' })
    .says('Name of this server in GET /v2')
    .to('engine.id'),
  flag('triton-defaults', boolean, 'false', ours)
    .says("Use Triton's defaults where Galatea's are safer")
    .set('engine.reportedVersion', (flags, { version }) => (hasTritonDefaults(flags) ? tritonVersion : version))
    .set('engine.runsEnsemblesLikeTriton', hasTritonDefaults)
    .set('engine.wordsErrorsLikeTriton', hasTritonDefaults)
    .set('http.boundsBinaryBodies', (flags) => !hasTritonDefaults(flags)),
  flag('state-dir', text('PATH'), '', ours)
    .says('Folder where rollouts, default versions and held versions outlive the server; $XDG_STATE_HOME/galatea/<id>')
    .set('process.stateDirectory', stateDirectory),
  flag('rollout-store', text('state|redis://HOST:PORT'), 'state', ours)
    .says('Keep rollouts in --state-dir alone, or share them with other servers through Redis')
    .set('process.rolloutStoreUrl', rolloutStoreUrl),
  flag('prometheus-url', text('URL'), '', ours)
    .says('Prometheus that answers the queries of rollouts (`promql` metrics)')
    .to('process.prometheusUrl'),
  flag('notify-secret-env', formOf('NAME,NAME', variableNames), '', ours)
    .says('Environment variables that rollouts may name as `secret_env`, to sign their notifications')
    .to('process.notifySecretNames'),
  flag('country-header', formOf('HEADER', headerName), '', ours)
    .says('Header in which a proxy says the country of the client, for rules of rollouts, as cf-ipcountry')
    .to('process.countryHeader'),
  flag('geoip-database', text('FILE.mmdb'), '', ours)
    .says('MaxMind database that says the country of an address, for rules of rollouts')
    .to('process.geoipFile'),
  flag('trusted-proxies', formOf('CIDR,CIDR', proxies), '', ours)
    .says('Proxies whose X-Forwarded-For is believed')
    .to('process.trustedProxies'),
  flag('allow-fault-injection', boolean, 'false', ours)
    .says("Let clients ask for delays and errors: POST /v2/faults and the headers of Envoy's fault filter")
    .to('process.allowsFaultInjection'),
  flag('exit-on-error', boolean, 'true').says('Exit when a model fails to load at start').to('process.exitOnError'),
  flag('listen-while-loading', boolean, 'true', { ...ours, tritonDefault: 'false' })
    .says('Open the ports before the models are loaded; until then only questions about health are answered')
    .to('process.listensWhileLoading'),
  flag('exit-timeout-secs', integer(0), '30')
    .says('How long running requests may take to finish at shutdown')
    .to('process.exitTimeoutSecs'),
  flag('strict-readiness', boolean, 'true').says('Be ready only when every model is').to('engine.isStrictReadiness'),
  flag('live-check', choice('server', 'compute'), 'server', ours)
    .says('What liveness tells of: the server alone, or every worker too')
    .set('process.liveCheckTimeoutSecs', (flags) =>
      flags.text('live-check').toLowerCase() === 'compute' ? Number(flags.text('live-timeout-secs')) : 0,
    ),
  flag('live-timeout-secs', seconds, '10', ours)
    .says('Without a sign of life for so long a worker hangs (--live-check=compute)')
    .readBy('live-check'),
  flag('orca', choice('off', 'asked', 'always'), 'asked', { ...ours, tritonDefault: 'off' })
    .says(
      'Load reports on answers for balancers: never, for requests with endpoint-load-metrics-format, or on every answer',
    )
    .to('process.loadTelling'),
  flag('access-config', text('PATH'), '', ours)
    .says('Who may call what, and how much: keys, tokens, roles, limits. Read again when the file changes')
    .to('process.accessConfigFile'),
  flag('actions', text('PATH'), '', ours)
    .says(
      'What the server does about alerts and about its own figures: roll back, pause jobs, add instances, free memory, notify',
    )
    .to('process.actionsFile'),
  flag('cost-per-hour', text('PRICE'), '', ours)
    .says('What an hour of this server costs, for GET /v2/cost: 1.2')
    .set('process.costPerHour', costPerHour),
  flag('currency', text('NAME'), 'EUR', ours).says('The currency of --cost-per-hour').to('process.currency'),
  flag('client-memory-limit', byteSize, '1GiB', { ...ours, tritonDefault: '8GiB' })
    .says('Most memory held for clients: request bodies, halves of messages, answers that are not read')
    .to('process.clientMemoryLimitBytes'),
  flag('max-decompression-ratio', integer(0), '100', { ...ours, tritonDefault: '0' })
    .says('Most times that a compressed request above 4 MiB may grow; 0 for no bound but its size')
    .set('process.maxDecompressionRatio', (flags) => Number(flags.text('max-decompression-ratio')) || Infinity),
  flag('allow-client-shared-memory', boolean, 'false', { ...ours, tritonDefault: 'true' })
    .says('Let clients on this machine register shared memory')
    .set('process.allowsClientSharedMemory', (flags) =>
      flags.isOn(flags.isGiven('allow-client-shm') ? 'allow-client-shm' : 'allow-client-shared-memory'),
    ),
  flag('allow-client-shm', boolean, 'false', { tritonDefault: 'true' })
    .says('The same as --allow-client-shared-memory')
    .readBy('allow-client-shared-memory'),
  flag('allow-remote-shared-memory', boolean, 'false', ours)
    .says("Let clients at other addresses than this machine's register shared memory, as from another container")
    .to('process.allowsRemoteSharedMemory'),
  flag('allow-foreign-shared-memory', boolean, 'false', { ...ours, tritonDefault: 'true' })
    .says(
      "Let clients register shared memory that another user owns and keeps from the server's user; root may open it all the same",
    )
    .to('process.allowsForeignSharedMemory'),
]

function variableNames(flagName: string, value: string): readonly string[] {
  const names = value === '' ? [] : value.split(',')
  const wrong = names.find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
  if (wrong !== undefined) throw badOption(flagName, `expected names of environment variables with commas between them, got '${wrong}'`) // prettier-ignore
  return names
}

function rolloutStoreUrl(flags: FlagValues): string {
  const given = flags.text('rollout-store')
  if (given === 'state') return ''
  const protocol = URL.parse(given)?.protocol
  if (protocol === 'redis:' || protocol === 'rediss:') return given
  throw badOption('rollout-store', `expected state or redis://HOST:PORT, got '${given.replace(/\/\/[^/@]*@/, '//')}'`)
}

function stateDirectory(flags: FlagValues, { environment }: Surroundings): string {
  const given = flags.text('state-dir')
  if (given !== '') return path.resolve(given)
  const home = environment['XDG_STATE_HOME'] ?? ''
  const base = home === '' ? path.join(homedir(), '.local/state') : home
  return path.join(base, 'galatea', flags.text('id').replaceAll(/[^\w.-]+/g, '-'))
}

function costPerHour(flags: FlagValues): number {
  const text = flags.text('cost-per-hour')
  if (text === '') return 0
  const price = /^[0-9]{1,9}(?:\.[0-9]{1,6})?$/.test(text) ? Number(text) : 0
  if (price > 0) return price
  throw badOption('cost-per-hour', `expected a price above 0, as 1.2, got '${text}'`)
}

export const logFlags = [
  flag('log-verbose', verbosity, '0').says('Level of verbose lines; 0 = none').to('process.log.verboseLevel'),
  flag('log-info', boolean, 'true').says('Write lines of level INFO').to('process.log.isInfoOn'),
  flag('log-warning', boolean, 'true').says('Write lines of level WARNING').to('process.log.isWarningOn'),
  flag('log-error', boolean, 'true').says('Write lines of level ERROR').to('process.log.isErrorOn'),
  flag('log-format', choice('default', 'ISO8601', 'json'), 'default')
    .says("Triton's line, the same with ISO time, or JSON lines")
    .to('process.log.format'),
  flag('log-file', text('PATH'), '')
    .says('Append all lines to this file instead of stdout and stderr')
    .to('process.log.file'),
  flag('access-log', text('PATH'), '', ours)
    .says('Write a JSON line per request to this file; - for stdout')
    .to('process.accessLogFile'),
  flag('audit-log', text('PATH'), '', ours)
    .says(
      'Append a JSON line for every load and unload of a model, who asked and how it ended; SIGHUP opens the file anew',
    )
    .to('process.auditLogFile'),
]
