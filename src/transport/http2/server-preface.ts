// What this server allows its clients, and its first words, which tell them.

import { defaultWindowBytes, encodeSettings, encodeWindowUpdate, settingIds } from './http2-format.ts'

/** How much a client may send ahead of what was taken, on one stream and on the whole connection. */
export const streamWindowBytes = 1024 * 1024
export const connectionWindowBytes = 16 * 1024 * 1024
/** Data is taken out of its frame as it arrives, so that a large frame costs no memory and saves its client some work. */
export const maxFrameBytes = 1024 * 1024
export const maxConcurrentStreams = 10_000
/** Names, values and 32 bytes for each field: what a request may carry. */
export const maxHeaderListBytes = 16 * 1024

/** A server's first words. */
export const serverPreface: Buffer = Buffer.concat([
  encodeSettings([
    [settingIds.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
    [settingIds.INITIAL_WINDOW_SIZE, streamWindowBytes],
    [settingIds.MAX_FRAME_SIZE, maxFrameBytes],
    [settingIds.MAX_HEADER_LIST_SIZE, maxHeaderListBytes],
  ]),
  encodeWindowUpdate(0, connectionWindowBytes - defaultWindowBytes),
])
