// A lane carries one request at a time: over a connection of its own with HTTP, as a stream of a shared one with gRPC.

import type { PreparedRequest, SequenceStamp } from './prepared-request.ts'

export interface LaneSink {
  /** A response arrived; decoupled models give several per request. `isEmpty`: it only says that there are no more. */
  onResponse(lane: Lane, nowMs: number, isEmpty: boolean): void
  /** The request is over; `failure` is null when every response was good. The lane takes the next one. */
  onDone(lane: Lane, nowMs: number, failure: LaneFailure | null): void
}

export type LaneFailure = {
  readonly text: string
  /** Nothing to answer: worth a pause before the next try. */
  readonly isConnection: boolean
}

export abstract class Lane {
  readonly index: number
  /** When the request should have gone out: with open-loop loads that may be earlier than it did. */
  intendedMs = 0
  sentMs = 0
  sendEndMs = 0
  /** 0 until the first byte of the answer. */
  firstByteMs = 0
  /** Of the first response; 0 until it is there. */
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

  /** Resolves when it could carry a request at once. */
  abstract open(): Promise<void>
  protected abstract transmit(request: PreparedRequest, stamp: SequenceStamp | null): void
  abstract close(): void
}
