// The process that decodes pictures: orders come in by descriptor 3, pixels go out by it. It ends when the server closes its side.

import { writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { lowerThreads } from '../../base/lower-threads.ts'
import { messageOf } from '../../base/server-error.ts'
import { frameHead, FrameReader, type PictureOrder, type PictureResult } from './picture-frames.ts'
import { complaintOf, openSharp, preparePicture, type Sharp } from './prepare-picture.ts'

const socketFd = 3
/** The server bounds what it sends by its own limit of a request. */
const mostFileBytes = 2 ** 32
/** Where memory runs out, the system ends this process before the server and its models. */
const memoryScore = '800'

// A signal for every process of a service (systemd) must not end this one before the server has drained.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined)

/** By force: an exit would wait for the threads, and a picture may keep one for good. Nobody waits for an answer any more. */
const leave = (): void => void process.kill(process.pid, 'SIGKILL')

const noPixels = Buffer.alloc(0)
/** The package, or why there is none. */
const opened: Promise<Sharp | string> = open().catch((reason: unknown) => messageOf(reason).slice(0, 200))

async function open(): Promise<Sharp> {
  const sharp = await openSharp()
  // Threads of libvips are started by those of the pool, and inherit from them. The main thread hands files on, for which pictures wait.
  await lowerThreads('libuv-worker', 10)
  return sharp
}

async function answer(order: PictureOrder, file: Buffer): Promise<[PictureResult['outcome'], string, Uint8Array]> {
  const sharp = await opened
  if (typeof sharp === 'string') return ['noPackage', sharp, noPixels]
  try {
    return ['ready', '', await preparePicture(sharp, file, order.plan, order.maxPixels)]
  } catch (reason) {
    const text = messageOf(reason)
    if (/pixel limit/i.test(text)) return ['tooLarge', '', noPixels]
    return ['unreadable', complaintOf(text), noPixels]
  }
}

const socket = new Socket({ fd: socketFd, readable: true, writable: true })
const reader = new FrameReader<PictureOrder>(
  () => mostFileBytes,
  (order, file) => {
    void answer(order, file).then(([outcome, text, pixels]) => {
      socket.cork()
      socket.write(frameHead({ id: order.id, outcome, text }, pixels.length))
      socket.write(pixels)
      socket.uncork()
    })
  },
)
socket.on('data', (piece: Buffer) => reader.push(piece))
socket.on('close', leave)
socket.on('error', leave)
await writeFile('/proc/self/oom_score_adj', memoryScore).catch(() => undefined)
