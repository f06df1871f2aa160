import type { ListenOptions } from '../listener.ts'

export type GrpcTransportOptions = ListenOptions & {
  /** A UNIX socket beside the port; '' : none. */
  readonly socketPath: string
  /** The most bytes of a message, as sent and after decompression. */
  readonly maxMessageBytes: number
  /** `--grpc-max-stream-backlog`: with so much unread of one call no further message of the call is read. */
  readonly maxBacklogBytes: number
  /** How long a message may stand still before it is whole. */
  readonly bodyIdleTimeoutMs: number
  /** Bytes per second that must come in each such time; 0: any. */
  readonly leastBodyRate: number
  /** How long a client may take nothing of an answer. */
  readonly writeIdleTimeoutMs: number
  /** How long a connection may stay open without a call. */
  readonly idleTimeoutMs: number
  /** 0: as many as the system gives. */
  readonly maxConnections: number
  /** How hard answers are compressed. */
  readonly compressionLevel: 'none' | 'low' | 'medium' | 'high'
  /** The time between two keep-alive pings of the server. */
  readonly keepaliveTimeMs: number
  /** How long a client may take to answer a keep-alive ping. */
  readonly keepaliveTimeoutMs: number
  /** Whether server and client may ping on a connection without a call. */
  readonly keepaliveWithoutCalls: boolean
  /** The most pings of the server between two pieces of data; 0: no limit. */
  readonly maxPingsWithoutData: number
  /** The least time between two pings of a client. A ping before that is a strike. */
  readonly minPingIntervalMs: number
  /** The most strikes of a client; 0: no limit. */
  readonly maxPingStrikes: number
  /** The age at which a connection is closed; 0: never. */
  readonly maxConnectionAgeMs: number
  /** How long the calls of such a connection may still take; 0: no limit. */
  readonly maxConnectionAgeGraceMs: number
}
