// Pictures are decoded in a process of its own: libvips reads what strangers send, and a fault of it ends that process and not the server.
// The process starts with the first picture, and ends when no picture has come for a while.

import { spawn, type ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { noteWorker } from '../../base/running-workers.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { workerEnvironment } from '../../base/worker-environment.ts'
import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'
import { frameHead, FrameReader, type PictureResult } from './picture-frames.ts'

const entry = fileURLToPath(new URL(`./picture-program${path.extname(import.meta.url)}`, import.meta.url))

/** A process with pictures that gives no answer for so long is ended. It gives a picture up by itself before that. */
const longestAnswerSecs = 60
/** Without pictures for so long, the process ends and its memory with it. */
const idleSecs = 60

const socketPlace = 3

type PictureAnswer = PictureResult & { readonly pixels: Buffer<ArrayBuffer> }

type WaitingPicture = {
  readonly pixelBytes: number
  readonly resolve: (answer: PictureAnswer) => void
  readonly reject: (reason: ServerError) => void
}

export class PictureProcess {
  readonly #clock: Clock
  readonly #log: Log
  readonly #maxPixels: number
  /** Pictures that are decoded at the same time, each in a thread. */
  readonly #threads: number
  readonly #waiting = new Map<number, WaitingPicture>()
  #nextId = 1
  #running: Running | null = null
  /** Of the time without an answer, or without pictures. */
  #cancelLimit: Cancel | null = null

  constructor(clock: Clock, log: Log, maxPixels: number, threads: number) {
    this.#clock = clock
    this.#log = log.from('picture-process.ts')
    this.#maxPixels = maxPixels
    this.#threads = threads
  }

  /** Rejects with a ServerError where the process ends meanwhile. */
  prepare(file: Buffer, plan: ImagePlan): Promise<PictureAnswer> {
    const { socket } = (this.#running ??= this.#start())
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      const pixelBytes = plan.height * plan.width * plan.channels
      this.#waiting.set(id, { pixelBytes, resolve, reject })
      if (this.#waiting.size === 1) this.#watch()
      socket?.cork()
      socket?.write(frameHead({ id, plan, maxPixels: this.#maxPixels }, file.length))
      socket?.write(file)
      socket?.uncork()
    })
  }

  #start(): Running {
    const child = spawn(process.execPath, [entry], {
      env: { ...workerEnvironment([]), UV_THREADPOOL_SIZE: String(this.#threads + 1) },
      // A session of its own: Ctrl-C goes to the server alone.
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    })
    const forget = noteWorker(() => void child.kill('SIGKILL'))
    // Without free descriptors there is no process and no socket.
    const socket = (child.stdio as typeof child.stdio | undefined)?.[socketPlace] as Socket | undefined
    const running = { child, socket, forget }
    child.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      this.#ended(running, `it could not be started: ${code}`)
    })
    child.on('exit', (code, signal) => {
      this.#ended(running, signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`)
    })
    // A process that strangers' files may have taken over is not believed more than they are.
    const mostBytes = ({ id }: PictureResult): number => this.#waiting.get(id)?.pixelBytes ?? 0
    const reader = new FrameReader<PictureResult>(mostBytes, (head, pixels) => this.#settle(head, pixels))
    socket?.on('data', (piece: Buffer) => {
      try {
        reader.push(piece)
      } catch (reason) {
        if (running === this.#running) this.#end(messageOf(reason))
      }
    })
    // The end of the process tells more than a broken socket.
    socket?.on('error', () => undefined)
    // A server that stops does not wait for the process.
    child.unref()
    socket?.unref()
    return running
  }

  /** From now on. */
  #watch(): void {
    this.#cancelLimit?.()
    this.#cancelLimit =
      this.#waiting.size === 0
        ? this.#clock.after(idleSecs * 1e9, () => this.close())
        : this.#clock.after(longestAnswerSecs * 1e9, () => this.#end(`it gave no answer for ${longestAnswerSecs} s`))
  }

  #settle(result: PictureResult, pixels: Buffer<ArrayBuffer>): void {
    const picture = this.#waiting.get(result.id)
    if (picture === undefined) return
    this.#waiting.delete(result.id)
    this.#watch()
    // The package may be installed meanwhile, and a process looks for it once.
    if (result.outcome === 'noPackage' && this.#waiting.size === 0) this.close()
    picture.resolve({ ...result, pixels })
  }

  /** The process ends by itself then. The next picture starts another one. */
  close(): void {
    const running = this.#running
    this.#running = null
    running?.socket?.end()
    this.#fail('the server does not wait for it')
  }

  /** By force. */
  #end(reason: string): void {
    const running = this.#running
    running?.child.kill('SIGKILL')
    if (running !== null) this.#ended(running, reason)
  }

  #ended(running: Running, reason: string): void {
    running.forget()
    if (running !== this.#running) return
    this.#running = null
    running.socket?.destroy()
    this.#log.error('the process that decodes pictures ended', { reason, pictures: this.#waiting.size })
    this.#fail(reason)
  }

  #fail(reason: string): void {
    this.#cancelLimit?.()
    const pictures = [...this.#waiting.values()]
    this.#waiting.clear()
    const text = `the process that decodes pictures ended with this picture: ${reason}`
    for (const { reject } of pictures) reject(ServerError.withoutStack('UNAVAILABLE', text))
  }
}

type Running = { readonly child: ChildProcess; readonly socket: Socket | undefined; readonly forget: () => void }
