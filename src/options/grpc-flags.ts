// The gRPC port.

import type { GrpcOptions } from '../ports/grpc/grpc-options.ts'
import { accepted, flag, ours, repeatable, type FlagValues, forwardPattern } from './flag.ts'
import {
  anyInteger,
  boolean,
  bytes,
  choiceInAnyCase,
  integer,
  port,
  restrictedApis,
  restrictedBy,
  seconds,
  someText,
  text,
} from './flag-forms.ts'

const ms = integer(0)

export const grpcFlags = [
  flag('allow-grpc', boolean, 'true').says('Serve gRPC').switches('grpc'),
  flag('grpc-address', someText('ADDRESS'), '127.0.0.1', { tritonDefault: '0.0.0.0' })
    .says('Address to listen on')
    .to('grpc.address'),
  flag('grpc-port', port, '8001').says('Port to listen on').to('grpc.port'),
  flag('grpc-socket-path', text('PATH'), '', ours)
    .says('UNIX socket to listen on beside the port')
    .to('grpc.socketPath'),
  flag('reuse-grpc-port', boolean, 'false').says('Let several servers share the port').to('grpc.reusePort'),
  flag('grpc-max-message-size', integer(1), '67108864', { ...ours, tritonDefault: '2147483647' })
    .says('Most bytes of a message, also after decompression')
    .to('grpc.maxMessageBytes'),
  flag('grpc-max-stream-backlog', bytes, '1048576', ours)
    .says('Most bytes a stream keeps for a client that does not read')
    .to('grpc.maxBacklogBytes'),
  flag('grpc-body-idle-timeout-secs', seconds, '30', ours)
    .says('Longest pause while a message is received')
    .to('grpc.bodyIdleTimeoutMs'),
  flag('grpc-body-min-rate', integer(0), '240', ours)
    .says('Least bytes per second of a message, over the longest pause; 0 = any rate')
    .to('grpc.leastBodyRate'),
  flag('grpc-write-idle-timeout-secs', seconds, '30', ours)
    .says('How long a client may take nothing of an answer')
    .to('grpc.writeIdleTimeoutMs'),
  flag('grpc-idle-timeout-secs', seconds, '300', ours)
    .says('How long a connection without a call is kept')
    .to('grpc.idleTimeoutMs'),
  flag('grpc-max-connections', integer(0), '0', ours)
    .says('Most connections at a time; 0 = as many as the system gives')
    .to('grpc.maxConnections'),
  flag('grpc-header-forward-pattern', text('REGEX'), '')
    .says('Metadata whose name matches becomes parameters')
    .set('grpc.headerForwardPattern', (flags) => forwardPattern(flags, 'grpc-header-forward-pattern')),
  flag('grpc-infer-thread-count', integer(2, 128), '2', accepted).says('Threads that take requests'),
  flag('grpc-infer-allocation-pool-size', anyInteger, '8', accepted).says('Request objects kept for reuse'),
  flag('grpc-max-response-pool-size', integer(1), '2147483647', accepted).says('Response objects kept for reuse'),
  flag('grpc-use-ssl', boolean, 'false').says('Serve over TLS').set('grpc.tls', grpcTls),
  flag('grpc-use-ssl-mutual', boolean, 'false').says('Ask clients for a certificate').readBy('grpc-use-ssl'),
  flag('grpc-server-cert', text('FILE'), '').says('PEM certificate of the server').readBy('grpc-use-ssl'),
  flag('grpc-server-key', text('FILE'), '').says('PEM key of the server').readBy('grpc-use-ssl'),
  flag('grpc-root-cert', text('FILE'), '').says('PEM certificate authorities for clients').readBy('grpc-use-ssl'),
  flag('grpc-infer-response-compression-level', choiceInAnyCase('none', 'low', 'medium', 'high'), 'none')
    .says('Compression of responses')
    .to('grpc.compressionLevel'),
  flag('grpc-keepalive-time', ms, '7200000').says('Milliseconds between keep-alive pings').to('grpc.keepaliveTimeMs'),
  flag('grpc-keepalive-timeout', ms, '20000')
    .says('Milliseconds to wait for the answer to a ping')
    .to('grpc.keepaliveTimeoutMs'),
  flag('grpc-keepalive-permit-without-calls', boolean, 'false')
    .says('Ping connections without calls')
    .to('grpc.keepaliveWithoutCalls'),
  flag('grpc-http2-max-pings-without-data', integer(0), '2')
    .says('Most pings without data between them')
    .to('grpc.maxPingsWithoutData'),
  flag('grpc-http2-min-recv-ping-interval-without-data', ms, '300000')
    .says('Least milliseconds between pings')
    .to('grpc.minPingIntervalMs'),
  flag('grpc-http2-max-ping-strikes', integer(0), '2')
    .says('Bad pings before a connection is closed')
    .to('grpc.maxPingStrikes'),
  flag('grpc-max-connection-age', ms, '')
    .says('Milliseconds after which a connection is closed')
    .set('grpc.maxConnectionAgeMs', (flags) => optionalMs(flags, 'grpc-max-connection-age')),
  flag('grpc-max-connection-age-grace', ms, '')
    .says('Milliseconds it has left then')
    .set('grpc.maxConnectionAgeGraceMs', (flags) => optionalMs(flags, 'grpc-max-connection-age-grace')),
  flag('grpc-restricted-protocol', restrictedApis, '', repeatable)
    .says('These APIs answer only to calls with the metadata triton-grpc-protocol-KEY: VALUE')
    .set('grpc.restrictedProtocols', (flags) =>
      restrictedBy('grpc-restricted-protocol', flags.all('grpc-restricted-protocol')),
    ),
]

/** 0: no limit. */
const optionalMs = (flags: FlagValues, name: string): number => (flags.text(name) === '' ? 0 : flags.number(name))

function grpcTls(flags: FlagValues): GrpcOptions['tls'] {
  const isMutual = flags.isOn('grpc-use-ssl-mutual')
  // As in Triton, mutual TLS is TLS.
  if (!isMutual && !flags.isOn('grpc-use-ssl')) return null
  return {
    certificate: flags.text('grpc-server-cert'),
    key: flags.text('grpc-server-key'),
    root: flags.text('grpc-root-cert'),
    isMutual,
  }
}
