// The HTTP port, and the limits of a request on every port.

import type { HttpOptions } from '../ports/http/http-options.ts'
import { accepted, flag, ours, repeatable, unique, type FlagValues } from './flag.ts'
import {
  badOption,
  boolean,
  bytes,
  formOf,
  integer,
  port,
  restrictedApis,
  restrictedBy,
  seconds,
  text,
} from './flag-forms.ts'

export const httpFlags = [
  flag('allow-http', boolean, 'true', 'Serve HTTP/REST').switches('http'),
  flag('http-address', text('ADDRESS'), '127.0.0.1', 'Address to listen on; 0.0.0.0 for all', {
    tritonDefault: '0.0.0.0',
  }).to('http.address'),
  flag('http-port', port, '8000', 'Port to listen on; 0 takes a free one and prints it').to('http.port'),
  flag('reuse-http-port', boolean, 'false', 'Let several servers share the port (SO_REUSEPORT)').to('http.reusePort'),
  flag('http-max-input-size', bytes, '67108864', 'Most bytes of a request body, as sent and decompressed').to(
    'http.maxInputBytes',
  ),
  flag('http-header-forward-pattern', text('REGEX'), '', 'Request headers whose name matches become parameters').to(
    'http.headerForwardPattern',
  ),
  flag(
    'http-cors-origin',
    formOf('ORIGIN,ORIGIN|*', parseCorsOrigins),
    '',
    'Origins whose web pages may call the server from a browser',
    { ...ours, ...repeatable },
  ).set('http.corsOrigins', (flags) =>
    unique(flags.all('http-cors-origin').flatMap((value) => parseCorsOrigins('http-cors-origin', value))),
  ),
  flag(
    'http-restricted-api',
    restrictedApis,
    '',
    'These APIs answer only to requests with the header KEY: VALUE',
    repeatable,
  ).set('http.restrictedApis', (flags) => restrictedBy('http-restricted-api', flags.all('http-restricted-api'), 'api')),
  flag('http-headers-timeout-secs', seconds, '10', 'Time a client has to send its headers', ours).to(
    'http.headersTimeoutMs',
  ),
  flag('http-body-idle-timeout-secs', seconds, '30', 'Longest pause while a body is received', ours).to(
    'http.bodyIdleTimeoutMs',
  ),
  flag('http-write-idle-timeout-secs', seconds, '30', 'How long a client may take no byte of its answer', ours).to(
    'http.writeIdleTimeoutMs',
  ),
  flag('http-keep-alive-timeout-secs', seconds, '75', 'How long an idle connection is kept', ours).to(
    'http.keepAliveTimeoutMs',
  ),
  flag('http-max-connections', integer(0), '0', 'Most connections at a time; 0 = as many as the system gives', ours).to(
    'http.maxConnections',
  ),
  flag(
    'http-max-header-size',
    integer(1024, 1048576),
    '16384',
    'Most bytes of a request line and its headers',
    ours,
  ).to('http.maxHeaderBytes'),
  flag('http-use-ssl', boolean, 'false', 'Serve over TLS', ours).set('http.tls', httpTls),
  flag('http-use-ssl-mutual', boolean, 'false', 'Serve over TLS and ask clients for a certificate', ours).readBy(
    'http-use-ssl',
  ),
  flag('http-server-cert', text('FILE'), '', 'PEM certificate of the server, read again when it changes', ours).readBy(
    'http-use-ssl',
  ),
  flag('http-server-key', text('FILE'), '', 'PEM key of the server', ours).readBy('http-use-ssl'),
  flag('http-root-cert', text('FILE'), '', 'PEM certificate authorities for clients', ours).readBy('http-use-ssl'),
  flag('http-thread-count', integer(1), '8', 'Threads of the HTTP server', accepted),
]

export const requestLimitFlags = [
  flag('max-request-tensors', integer(1), '256', 'Most inputs, and most outputs, of one request', ours)
    .to('http.requestLimits.maxTensors')
    .to('grpc.requestLimits.maxTensors'),
  flag('max-tensor-rank', integer(1, 255), '16', 'Most dimensions of a tensor', ours)
    .to('http.requestLimits.maxRank')
    .to('grpc.requestLimits.maxRank'),
  flag('max-request-parameters', integer(0), '256', 'Most parameters of one request', ours)
    .to('http.requestLimits.maxParameters')
    .to('grpc.requestLimits.maxParameters'),
  flag('max-request-id-bytes', integer(0), '1024', 'Longest request id', ours)
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
