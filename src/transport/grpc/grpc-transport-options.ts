import type { ListenOptions } from '../listener.ts'

export type GrpcTransportOptions = ListenOptions & {
  /** The most bytes of a message, as sent and after decompression. */
  readonly maxMessageBytes: number
  /** Of answers. */
  readonly compressionLevel: 'none' | 'low' | 'medium' | 'high'
  /** How often a client is asked whether it is still there. */
  readonly keepaliveTimeMs: number
  /** How long the client may take to say so. */
  readonly keepaliveTimeoutMs: number
  /** Whether that is asked, and clients may ask, on connections without a call. */
  readonly keepaliveWithoutCalls: boolean
  /** 0: as many as keep-alive wants. */
  readonly maxPingsWithoutData: number
  /** Between two pings of a client; more often is a strike. */
  readonly minPingIntervalMs: number
  /** 0: as many as the client likes. */
  readonly maxPingStrikes: number
  /** 0: no limit. */
  readonly maxConnectionAgeMs: number
  /** What calls may take beyond that age; 0: no limit. */
  readonly maxConnectionAgeGraceMs: number
}
