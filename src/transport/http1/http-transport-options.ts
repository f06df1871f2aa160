import type { ListenOptions } from '../listener.ts'

export type HttpTransportOptions = ListenOptions & {
  /** The most bytes of a body that are collected. */
  readonly bodyLimitBytes: number
  /** How long the head of a request may take to arrive. */
  readonly headersTimeoutMs: number
  /** How long a body may stand still. */
  readonly bodyIdleTimeoutMs: number
  /** Bytes per second that must come in each such time; 0: any. */
  readonly leastBodyRate: number
  /** How long a client may take no byte of its answer. */
  readonly writeIdleTimeoutMs: number
  /** How long a connection may stay open without a request. */
  readonly keepAliveTimeoutMs: number
  /** 0: as many as the system gives. */
  readonly maxConnections: number
  /** The most bytes of a request's head. */
  readonly maxHeaderBytes: number
}
