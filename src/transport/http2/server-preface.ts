// What the server allows its clients, and the first frames, which tell clients so.

import { leastTurnBytes } from '../message-turns.ts'
import { defaultWindowBytes, encodeSettings, encodeWindowUpdate, settingIds } from './http2-format.ts'

/**
 * How many bytes a client may send before the server has used them, per stream and per connection. The first is a large tensor: with
 * less the client of one waits again and again to be told that it may go on.
 */
export const streamWindowBytes = 8 * 1024 * 1024
export const connectionWindowBytes = 16 * 1024 * 1024
/** The window of a stream while large messages wait for their turns. What needs no turn has room in it. */
export const tightWindowBytes: number = leastTurnBytes
/** Large: data is passed on as it arrives, so a large frame costs the server no memory and saves the client work. */
export const maxFrameBytes = 1024 * 1024
/** A client with more calls keeps them until others have ended. */
export const maxConcurrentStreams = 1000
/** The most that the fields of a request may take: names, values and 32 bytes for each field. */
export const maxHeaderListBytes = 16 * 1024

const prefaceWith = (windowBytes: number): Buffer =>
  Buffer.concat([
    encodeSettings([
      [settingIds.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
      [settingIds.INITIAL_WINDOW_SIZE, windowBytes],
      [settingIds.MAX_FRAME_SIZE, maxFrameBytes],
      [settingIds.MAX_HEADER_LIST_SIZE, maxHeaderListBytes],
    ]),
    encodeWindowUpdate(0, connectionWindowBytes - defaultWindowBytes),
  ])

/** The first frames of the server; the second where large messages wait for their turns. */
export const serverPreface: Buffer = prefaceWith(streamWindowBytes)
export const tightServerPreface: Buffer = prefaceWith(tightWindowBytes)
