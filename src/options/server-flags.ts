// The server as a whole: its name, its defaults, its end, its logs.

import { flag, ours, type FlagValues } from './flag.ts'
import { boolean, choice, integer, seconds, text, verbosity } from './flag-forms.ts'

/** The version that answers `GET /v2` with --triton-defaults: the one whose behaviour was recorded. */
const tritonVersion = '2.51.0'

const hasTritonDefaults = (flags: FlagValues): boolean => flags.isOn('triton-defaults')

export const serverFlags = [
  flag('id', text('NAME'), 'galatea', 'Name of this server in GET /v2', { tritonDefault: 'triton' }).to('engine.id'),
  flag('triton-defaults', boolean, 'false', "Use Triton's defaults where Galatea's are safer", ours)
    .set('engine.reportedVersion', (flags, { version }) => (hasTritonDefaults(flags) ? tritonVersion : version))
    .set('engine.prunesEnsemblesLikeTriton', hasTritonDefaults)
    .set('http.boundsBinaryBodies', (flags) => !hasTritonDefaults(flags)),
  flag('exit-on-error', boolean, 'true', 'Exit when a model fails to load at start').to('process.exitOnError'),
  flag('exit-timeout-secs', integer(0), '30', 'How long running requests may take to finish at shutdown').to(
    'process.exitTimeoutSecs',
  ),
  flag('strict-readiness', boolean, 'true', 'Be ready only when every model is').to('engine.isStrictReadiness'),
  flag(
    'live-check',
    choice('server', 'compute'),
    'server',
    'What liveness tells of: the server alone, or every worker too',
    ours,
  ).set('process.liveCheckTimeoutSecs', (flags) =>
    flags.text('live-check') === 'compute' ? Number(flags.text('live-timeout-secs')) : 0,
  ),
  flag(
    'live-timeout-secs',
    seconds,
    '10',
    'Without a sign of life for so long a worker hangs (--live-check=compute)',
    ours,
  ).readBy('live-check'),
  flag('allow-client-shared-memory', boolean, 'false', 'Let clients on this machine register shared memory', {
    ...ours,
    tritonDefault: 'true',
  }).set('process.allowsClientSharedMemory', (flags) =>
    flags.isOn(flags.isGiven('allow-client-shm') ? 'allow-client-shm' : 'allow-client-shared-memory'),
  ),
  flag('allow-client-shm', boolean, 'false', 'The same as --allow-client-shared-memory', {
    tritonDefault: 'true',
  }).readBy('allow-client-shared-memory'),
]

export const logFlags = [
  flag('log-verbose', verbosity, '0', 'Level of verbose lines; 0 = none').to('process.log.verboseLevel'),
  flag('log-info', boolean, 'true', 'Write lines of level INFO').to('process.log.isInfoOn'),
  flag('log-warning', boolean, 'true', 'Write lines of level WARNING').to('process.log.isWarningOn'),
  flag('log-error', boolean, 'true', 'Write lines of level ERROR').to('process.log.isErrorOn'),
  flag(
    'log-format',
    choice('default', 'ISO8601', 'json'),
    'default',
    "Triton's line, the same with ISO time, or JSON lines",
  ).to('process.log.format'),
  flag('log-file', text('PATH'), '', 'Append all lines to this file instead of stdout and stderr').to(
    'process.log.file',
  ),
  flag('access-log', text('PATH'), '', 'Write a JSON line per request to this file; - for stdout', ours).to(
    'process.accessLogFile',
  ),
  flag(
    'audit-log',
    text('PATH'),
    '',
    'Append a JSON line for every load and unload of a model, who asked and how it ended; SIGHUP opens the file anew',
    ours,
  ).to('process.auditLogFile'),
]
