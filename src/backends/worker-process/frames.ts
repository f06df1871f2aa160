// The wire format between the server and a process that runs models. python/galatea_worker/frames.py has the same numbers, and
// test/e2e/python-frames.test.ts compares both.
//
// A frame is a 16-byte header (size, kind, count, id) and a body, padded to a multiple of 16 bytes, all little-endian.
// Tensor bytes that travel inside a frame start at a multiple of 16, so arrays made on them are aligned.

/** Server → worker. */
export const toWorker = {
  execute: 1,
  cancel: 2,
  freeOutputs: 3,
  blsResponse: 4,
  reply: 5,
  completeConfig: 6,
  initialize: 7,
  finalize: 8,
  trim: 9,
  taken: 10,
  ping: 11,
} as const

/** Worker → server. */
export const fromWorker = {
  hello: 32,
  configCompleted: 33,
  initialized: 34,
  startFailed: 35,
  executed: 36,
  executeFailed: 37,
  response: 38,
  freeInputs: 39,
  blsRequest: 40,
  blsCancel: 41,
  call: 42,
  metric: 43,
  log: 44,
  readiness: 45,
  skipped: 46,
  reschedule: 47,
  pong: 48,
  /** The times of one request, as its backend measured them. */
  timed: 49,
  /** A name and a time for the trace of a request. */
  activity: 50,
} as const

export const headerBytes = 16
/** The times of one request that a native backend reports: handle, start, end of the inputs, start of the outputs, end, flags. */
export const timedBytes = 48
export const timedFlags = { failed: 1, batch: 2 } as const
/** Before the responses of an executed frame: how long the execution took, in ns. */
export const executionTimeBytes = 8
/** The size of a request's head inside an execute frame, before its tensors. */
export const requestHeadBytes = 40
export const requestFlags = {
  sequenceStart: 1,
  sequenceEnd: 2,
  textCorrelation: 4,
  allOutputs: 8,
  isCancelled: 16,
  traced: 32,
  placed: 64,
} as const
export const responseHeadBytes = 16
export const responseFlags = { final: 1, error: 2, parameters: 4, flagOnly: 8 } as const
export const tensorHeadBytes = 24
/** In place of an index into the model's table of names: the name follows the dims. */
export const named = 0xffff
export const inline = 0
export const shared = 1
/** On a GPU. Where, lies inside the frame: the handle, the offset from what the handle opens, the number of the GPU. */
export const device = 2
export const deviceHandleBytes = 64
export const deviceReferenceBytes = deviceHandleBytes + 16
/** Where a client wants an output on a GPU: the index of the output, the bytes there, and a reference. A count stands before them. */
export const outputPlaceBytes = 16 + deviceReferenceBytes
/** The head of a model's own call: bytes of JSON, flags. */
export const blsHeadBytes = 8
export const blsFlags = { decoupled: 1 } as const
/** A log line names its level, and a metric's change its operation, by the place in these lists. */
export const logLevels = ['info', 'warning', 'error', 'verbose'] as const
export const metricOperations = ['increment', 'set', 'observe', 'remove'] as const

export const align8 = (size: number): number => (size + 7) & ~7
export const align16 = (size: number): number => (size + 15) & ~15

export function writeHeader(frame: Buffer, kind: number, count: number, id: number): void {
  frame.writeUInt32LE(frame.length, 0)
  frame.writeUInt16LE(kind, 4)
  frame.writeUInt16LE(count, 6)
  writeUint64(frame, id, 8)
}

/** For whole numbers up to 2^53, without the cost of a bigint. */
export function writeUint64(frame: Buffer, value: number, offset: number): void {
  frame.writeUInt32LE(value >>> 0, offset)
  frame.writeUInt32LE(Math.floor(value / 0x1_0000_0000) >>> 0, offset + 4)
}

export function readUint64(frame: Buffer, offset: number): number {
  return frame.readUInt32LE(offset) + frame.readUInt32LE(offset + 4) * 0x1_0000_0000
}

/** A frame with one text behind its length. */
export function textFrame(kind: number, id: number, text: string): Buffer {
  const bytes = Buffer.byteLength(text)
  const frame = Buffer.alloc(align16(headerBytes + 8 + bytes))
  writeHeader(frame, kind, 0, id)
  writeUint64(frame, bytes, headerBytes)
  frame.write(text, headerBytes + 8, 'utf8')
  return frame
}

export function readText(frame: Buffer, mostBytes = Infinity): string {
  const bytes = Math.min(readUint64(frame, headerBytes), mostBytes)
  return frame.toString('utf8', headerBytes + 8, headerBytes + 8 + bytes)
}

export function emptyFrame(kind: number, id = 0, count = 0): Buffer {
  const frame = Buffer.alloc(headerBytes)
  writeHeader(frame, kind, count, id)
  return frame
}
