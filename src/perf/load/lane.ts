// A lane carries one request at a time: with HTTP over its own connection, with gRPC as a stream of a shared connection.

import type { PreparedRequest, SequenceStamp } from './prepared-request.ts'

export interface LaneSink {
  /** A response arrived; decoupled models give several per request. `isEmpty`: the response only marks the end. */
  onResponse(lane: Lane, nowMs: number, isEmpty: boolean): void
  /** The request is over; `failure` is null when every response was good. The lane takes the next one. */
  onDone(lane: Lane, nowMs: number, failure: LaneFailure | null): void
}

export type LaneFailure = {
  readonly text: string
  /** The connection failed: the lane pauses before the next try. */
  readonly isConnection: boolean
}

export abstract class Lane {
  readonly index: number
  /** When the request should have been sent. With open-loop loads it may have been sent later. */
  intendedMs = 0
  sentMs = 0
  sendEndMs = 0
  /** 0 until the first byte of the answer. */
  firstByteMs = 0
  /** The time of the first response; 0 before it. */
  firstResponseMs = 0
  responses = 0
  request: PreparedRequest | null = null
  stamp: SequenceStamp | null = null
  /** The answer without frames, when bodies are kept. */
  body: Buffer | null = null
  /** HTTP: how many bytes of the body are JSON; null when all are, or for gRPC. */
  bodyHeaderLength: number | null = null
  protected readonly sink: LaneSink

  constructor(index: number, sink: LaneSink) {
    this.index = index
    this.sink = sink
  }

  send(request: PreparedRequest, stamp: SequenceStamp | null, intendedMs: number): void {
    this.request = request
    this.stamp = stamp
    this.intendedMs = intendedMs
    this.sentMs = performance.now()
    this.firstByteMs = 0
    this.firstResponseMs = 0
    this.responses = 0
    this.body = null
    this.bodyHeaderLength = null
    this.transmit(request, stamp)
    this.sendEndMs = performance.now()
  }

  /** Resolves when the lane is ready for a request. */
  abstract open(): Promise<void>
  protected abstract transmit(request: PreparedRequest, stamp: SequenceStamp | null): void
  abstract close(): void
}
