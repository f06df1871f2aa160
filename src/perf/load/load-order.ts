// The messages to and from the threads that make the load.

import type { HeaderField } from '../../transport/http2/hpack-encoder.ts'
import type { PreparedRequest } from './prepared-request.ts'
import type { SequenceSettings } from './sequence-source.ts'
import type { LoadTarget } from '../../transport/client-socket.ts'
import type { WindowRecord } from './window-recorder.ts'

export type ExpectedOutput = { readonly name: string; readonly bytes: Uint8Array }

export type LoadSetup = {
  readonly protocol: 'http' | 'grpc' | 'grpc-stream'
  readonly target: LoadTarget
  /** gRPC: pseudo-headers and metadata, in the order in which they are sent. */
  readonly fields: readonly HeaderField[]
  /** By stream of the input data, then by step. */
  readonly requests: readonly (readonly PreparedRequest[])[]
  /** The same order; null where answers are not compared. */
  readonly expected: readonly (readonly (readonly ExpectedOutput[])[])[] | null
  readonly isDecoupled: boolean
  readonly sequence: SequenceSettings | null
  readonly isExporting: boolean
  /** This thread's number, and where it begins in the data. */
  readonly share: number
  /** Two 32-bit numbers that the others may read at any time: requests done, requests failed. */
  readonly counters: SharedArrayBuffer
}

export type LoadLevel = {
  readonly shape:
    | { readonly kind: 'concurrency'; readonly lanes: number }
    | { readonly kind: 'constant'; readonly ratePerSecond: number; readonly share: number; readonly shares: number }
    | { readonly kind: 'poisson'; readonly ratePerSecond: number; readonly seed: number }
    | { readonly kind: 'intervals'; readonly intervalsUs: readonly number[] }
    | {
        readonly kind: 'periodic'
        readonly start: number
        readonly end: number
        readonly step: number
        /** After so many responses of each request of a group, the next group is sent. */
        readonly period: number
      }
  /** With open-loop shapes and sequences: how many sequences run beside each other. */
  readonly sequences: number
  /** Requests to send in all; null for no end. */
  readonly budget: number | null
}

/** `epochMs`: milliseconds of the wall clock, the same for all threads. */
export type LoadOrder =
  | { readonly kind: 'begin'; readonly level: LoadLevel; readonly epochMs: number }
  /** Hand over what was recorded since the last cut. */
  | { readonly kind: 'cut' }
  /** Send no more, wait for what is under way, close the connections. */
  | { readonly kind: 'end' }

export type LoadReport =
  | { readonly kind: 'begun' }
  | { readonly kind: 'window'; readonly record: WindowRecord }
  /** The budget is spent and everything answered. */
  | { readonly kind: 'spent' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'failed'; readonly reason: string }
