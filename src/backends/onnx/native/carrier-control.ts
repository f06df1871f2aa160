// The memory through which the main thread and a carrier thread speak.

/** Shared memory. The main thread fills `slots` and then raises `ticket`; the carrier answers with a message. */
export type CarrierControl = { readonly ticket: Int32Array; readonly slots: Float64Array }

/** carrier-thread.ts has these numbers and those below in its text. */
export const carrierCalls = { end: 0, run: 1, createSession: 2, releaseSession: 3, nothing: 4, callWithTwo: 5 } as const
export type CarrierCall = keyof typeof carrierCalls

/** Indexes into `slots`: which call, its (at most eight) arguments, what came of it, and the cores that the thread may use. */
export const controlFields = { call: 0, first: 1, status: 9, elapsedNs: 10, mask: 11, count: 12 } as const

export function createControl(): CarrierControl {
  return {
    ticket: new Int32Array(new SharedArrayBuffer(4)),
    slots: new Float64Array(new SharedArrayBuffer(8 * controlFields.count)),
  }
}
