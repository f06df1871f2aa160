// The HTTP port, and the limits of a request on every port.

import type { HttpOptions } from '../ports/http/http-options.ts'
import { accepted, flag, ours, repeatable, unique, type FlagValues, type Surroundings, forwardPattern } from './flag.ts'
import {
  badOption,
  boolean,
  bytes,
  FlagError,
  formOf,
  integer,
  port,
  restrictedApis,
  restrictedBy,
  seconds,
  text,
} from './flag-forms.ts'

export const httpFlags = [
  flag('allow-http', boolean, 'true').says('Serve HTTP/REST').switches('http'),
  flag('http-address', text('ADDRESS'), '127.0.0.1', { tritonDefault: '0.0.0.0' })
    .says('Address to listen on; 0.0.0.0 for all')
    .to('http.address'),
  flag('http-port', port, '8000').says('Port to listen on; 0 takes a free one and prints it').to('http.port'),
  flag('reuse-http-port', boolean, 'false')
    .says('Let several servers share the port (SO_REUSEPORT)')
    .to('http.reusePort'),
  flag('http-max-input-size', bytes, '67108864')
    .says('Most bytes of a request body, as sent and decompressed')
    .to('http.maxInputBytes'),
  flag('http-header-forward-pattern', text('REGEX'), '')
    .says('Request headers whose name matches become parameters')
    .set('http.headerForwardPattern', (flags) => forwardPattern(flags, 'http-header-forward-pattern')),
  flag('http-cors-origin', formOf('ORIGIN,ORIGIN|*', parseCorsOrigins), '', { ...ours, ...repeatable })
    .says('Origins whose web pages may call the server from a browser')
    .set('http.corsOrigins', (flags) =>
      unique(flags.all('http-cors-origin').flatMap((value) => parseCorsOrigins('http-cors-origin', value))),
    ),
  flag('http-allowed-hosts', formOf('HOST,HOST|*', parseHosts), '', { ...ours, ...repeatable })
    .says(
      'Names in the header Host that are answered beside those of loopback; without the flag all are, but on loopback',
    )
    .set('http.allowedHosts', allowedHosts)
    .set('metrics.allowedHosts', allowedHosts),
  flag('http-restricted-api', restrictedApis, '', repeatable)
    .says('These APIs answer only to requests with the header KEY: VALUE')
    .set('http.restrictedApis', (flags) => restrictedBy('http-restricted-api', flags.all('http-restricted-api'))),
  flag('kserve-v1', boolean, 'true', { ...ours, tritonDefault: 'false' })
    .says('Serve the KServe v1 protocol: /v1/models/{model}:predict')
    .to('http.hasKserveV1')
    .set('http.cloudEvents.source', (_, { environment }) => eventText(environment, 'CE_SOURCE', ''))
    .set('http.cloudEvents.type', (_, { environment }) =>
      eventText(environment, 'CE_TYPE', 'io.kserve.inference.response'),
    )
    .set('http.cloudEvents.isMerged', (_, { environment }) => environment['CE_MERGE']?.toLowerCase() === 'true'),
  flag('kserve-v1-metrics', boolean, 'false', ours)
    .says("Serve GET /metrics on the HTTP port: times of KServe v1 by the names of KServe's own server")
    .to('http.hasKserveMetrics'),
  flag('predict-max-pixels', integer(1, 1_000_000_000), '33554432', ours)
    .says('Most pixels of a picture that is uploaded to /predict')
    .to('http.maxPicturePixels'),
  flag('console', boolean, 'true', { ...ours, tritonDefault: 'false' })
    .says('Serve the console at /console, the API pages at /docs, and send browsers that ask for / there')
    .to('http.hasConsole'),
  flag('http-headers-timeout-secs', seconds, '10', ours)
    .says('Time a client has to send its headers')
    .to('http.headersTimeoutMs'),
  flag('http-body-idle-timeout-secs', seconds, '30', ours)
    .says('Longest pause while a body is received')
    .to('http.bodyIdleTimeoutMs'),
  flag('http-body-min-rate', integer(0), '240', ours)
    .says('Least bytes per second of a body, over the longest pause; 0 = any rate')
    .to('http.leastBodyRate'),
  flag('http-write-idle-timeout-secs', seconds, '30', ours)
    .says('How long a client may take no byte of its answer')
    .to('http.writeIdleTimeoutMs'),
  flag('http-keep-alive-timeout-secs', seconds, '75', ours)
    .says('How long an idle connection is kept')
    .to('http.keepAliveTimeoutMs'),
  flag('http-max-connections', integer(0), '0', ours)
    .says('Most connections at a time; 0 = as many as the system gives')
    .to('http.maxConnections'),
  flag('http-max-header-size', integer(1024, 1048576), '16384', ours)
    .says('Most bytes of a request line and its headers')
    .to('http.maxHeaderBytes'),
  flag('http-use-ssl', boolean, 'false', ours).says('Serve over TLS').set('http.tls', httpTls),
  flag('http-use-ssl-mutual', boolean, 'false', ours)
    .says('Serve over TLS and ask clients for a certificate')
    .readBy('http-use-ssl'),
  flag('http-server-cert', text('FILE'), '', ours)
    .says('PEM certificate of the server, read again when it changes')
    .readBy('http-use-ssl'),
  flag('http-server-key', text('FILE'), '', ours).says('PEM key of the server').readBy('http-use-ssl'),
  flag('http-root-cert', text('FILE'), '', ours).says('PEM certificate authorities for clients').readBy('http-use-ssl'),
  flag('http-thread-count', integer(0), '8', accepted).says('Threads of the HTTP server'),
]

export const requestLimitFlags = [
  flag('max-request-tensors', integer(1), '256', ours)
    .says('Most inputs, and most outputs, of one request')
    .to('http.requestLimits.maxTensors')
    .to('grpc.requestLimits.maxTensors'),
  flag('max-tensor-rank', integer(1, 255), '16', ours)
    .says('Most dimensions of a tensor')
    .to('http.requestLimits.maxRank')
    .to('grpc.requestLimits.maxRank'),
  flag('max-request-parameters', integer(0), '256', ours)
    .says('Most parameters of one request')
    .to('http.requestLimits.maxParameters')
    .to('grpc.requestLimits.maxParameters'),
  flag('max-request-id-bytes', integer(0), '1024', ours)
    .says('Longest request id')
    .to('http.requestLimits.maxIdBytes')
    .to('grpc.requestLimits.maxIdBytes'),
]

/** `--http-cors-origin=https://app.example.com,http://localhost:3000`, or `*`. */
function parseCorsOrigins(name: string, value: string): string[] {
  const origins = value.split(',').map((origin) => origin.trim())
  for (const origin of origins) {
    if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin && origin !== 'null')) continue
    throw badOption(
      name,
      `expected '*' or origins as browsers send them, like https://app.example.com or http://localhost:3000 ` +
        `(scheme, host and port, no path), got '${origin}'`,
    )
  }
  return origins
}

function allowedHosts(flags: FlagValues): string[] {
  return unique(flags.all('http-allowed-hosts').flatMap((value) => parseHosts('http-allowed-hosts', value)))
}

/** `--http-allowed-hosts=infer.example.com,10.0.0.5`, or `*`. A host counts on every port. */
function parseHosts(name: string, value: string): string[] {
  const hosts = value.split(',').map((host) => host.trim().toLowerCase())
  for (const host of hosts) {
    if (host === '*' || /^(?:[a-z\d_](?:[a-z\d_.-]*[a-z\d_])?|\[[\da-f:.]+\])$/.test(host)) continue
    throw badOption(
      name,
      `expected '*' or names as they stand in the header Host, without a port, like infer.example.com or [fd00::5], got '${host}'`,
    )
  }
  return hosts
}

function httpTls(flags: FlagValues): HttpOptions['tls'] {
  const isMutual = flags.isOn('http-use-ssl-mutual')
  if (!isMutual && !flags.isOn('http-use-ssl')) return null
  for (const name of ['http-server-cert', 'http-server-key', ...(isMutual ? ['http-root-cert'] : [])]) {
    if (flags.text(name) !== '') continue
    throw badOption(
      name,
      `it must name a PEM file when HTTP is served over TLS${isMutual ? ' to clients with certificates' : ''}`,
    )
  }
  return {
    certificate: flags.text('http-server-cert'),
    key: flags.text('http-server-key'),
    root: isMutual ? flags.text('http-root-cert') : '',
    isMutual,
  }
}

/** An attribute of CloudEvents; it may stand in a header. */
function eventText(environment: Surroundings['environment'], name: string, byDefault: string): string {
  const given = environment[name] ?? ''
  if (/^[\x20-\x7e]*$/.test(given)) return given === '' ? byDefault : given
  throw new FlagError(`environment variable ${name}: expected printable ASCII, got ${JSON.stringify(given)}`)
}
