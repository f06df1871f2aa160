// One process that runs a model: starts it, receives its frames and its printed lines, and notices its end.

import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import type { Cancel, Clock } from '../../base/clock.ts'
import { noteWorker } from '../../base/running-workers.ts'
import { messageOf } from '../../base/server-error.ts'
import { FrameStream } from './frame-stream.ts'
import { FrameWriter } from './frame-writer.ts'
import { createSocketPair } from './shared-memory.ts'
import type { TensorRegions } from './tensor-regions.ts'

export type WorkerCommand = {
  readonly executable: string
  readonly arguments: readonly string[]
  readonly environment: NodeJS.ProcessEnv
  readonly directory: string
}

type ProcessEvents = {
  onFrame(frame: Buffer): void
  onLine(line: string, stream: 'stdout' | 'stderr'): void
  /** Called once. No frame comes after it. */
  onExit(reason: string): void
}

const socketFd = 3
export const inputsFd = 4
export const outputsFd = 5
/** More than any batch of responses that travels inline; a worker that announces more is broken. */
const maxFrameBytes = 0xffff_fff0
/** The output of a worker is read for this long after its end. A process that it started may keep the pipes open longer. */
const lastWordsNs = 50e6
const lineLimit = 16 * 1024

export class WorkerProcess {
  readonly #clock: Clock
  readonly #events: ProcessEvents
  readonly #child: ChildProcess
  readonly #socket: Duplex
  readonly #writer: FrameWriter
  #exitReason: string | null = null
  #hasEnded = false
  #isReadable = true
  #cancelWait: Cancel | null = null
  #spawnFailure: Error | null = null
  readonly #forget: () => void

  constructor(clock: Clock, command: WorkerCommand, regions: TensorRegions | null, events: ProcessEvents) {
    this.#clock = clock
    this.#events = events
    const frames = new FrameStream((frame) => this.#events.onFrame(frame), maxFrameBytes)
    const onBytes = (chunk: Buffer): void => {
      if (this.#hasEnded) return
      // Answers let the scheduler send the next batches. The batches for the answers of one chunk leave in one write.
      this.#writer.hold()
      try {
        frames.push(chunk)
      } catch (reason) {
        this.#broken(messageOf(reason))
      }
      this.#writer.release()
    }
    const pair = createSocketPair()
    this.#child = spawn(command.executable, [...command.arguments, String(socketFd)], {
      cwd: command.directory,
      env: command.environment,
      // A session of its own: Ctrl-C goes to the server alone, and what the model starts can be ended as a group.
      detached: true,
      stdio: [
        'ignore',
        'pipe',
        'pipe',
        pair === null ? 'pipe' : pair[1],
        ...(regions === null ? [] : [regions.inputs.fd, regions.outputs.fd]),
      ],
    })
    this.#forget = noteWorker(() => this.kill())
    if (pair === null) this.#socket = this.#child.stdio[socketFd] as Duplex
    else {
      closeSync(pair[1])
      this.#socket = socketWithOwnBuffer(pair[0], onBytes)
    }
    this.#writer = new FrameWriter(this.#socket, pair === null ? null : pair[0])
    this.#child.once('error', (error) => {
      this.#spawnFailure = error
      this.#onExit(messageOf(error))
    })
    this.#child.once('exit', (code, signal) => {
      this.#onExit(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`)
    })
    if (this.#socket === undefined || this.#socket === null) return
    if (pair === null) this.#socket.on('data', onBytes)
    this.#socket.on('error', () => undefined)
    this.#socket.once('close', () => {
      this.#isReadable = false
      if (this.#exitReason !== null) this.#finish()
    })
    this.#readLines(this.#child.stdout, 'stdout')
    this.#readLines(this.#child.stderr, 'stderr')
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Set when the program does not exist or may not be run. */
  get spawnFailure(): NodeJS.ErrnoException | null {
    return this.#spawnFailure
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  send(frame: Buffer): void {
    if (this.#exitReason === null) this.#writer.write(frame)
  }

  /** For frames that the worker does not wait for: sent with the next frame, or at the end of this turn. */
  sendSoon(frame: Buffer): void {
    if (this.#exitReason === null) this.#writer.writeSoon(frame)
  }

  /** Ends the process and everything it started. */
  kill(): void {
    const { pid } = this.#child
    if (pid === undefined) return
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      // The group is gone already, or this system has no groups.
      this.#child.kill('SIGKILL')
    }
  }

  #broken(what: string): void {
    this.#exitReason ??= `it broke the protocol: ${what}`
    this.kill()
    this.#finish()
  }

  #onExit(reason: string): void {
    this.#exitReason ??= reason
    this.#forget()
    // Processes that the model started must not outlive it.
    this.kill()
    if (!this.#isReadable || this.#child.pid === undefined) this.#finish()
    else this.#cancelWait = this.#clock.after(lastWordsNs, () => this.#finish())
  }

  #finish(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#cancelWait?.()
    this.#writer.close()
    for (const stream of [this.#socket, this.#child.stdout, this.#child.stderr]) stream?.destroy()
    this.#events.onExit(this.#exitReason ?? 'it closed its connection')
  }

  #readLines(stream: Readable | null, name: 'stdout' | 'stderr'): void {
    let rest = ''
    const emit = (line: string): void => {
      if (line !== '') this.#events.onLine(line, name)
    }
    stream?.setEncoding('utf8')
    stream?.on('error', () => undefined)
    stream?.on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      lines.forEach(emit)
      // A model that never ends its line must not fill the server's memory.
      if (rest.length > lineLimit) {
        emit(rest)
        rest = ''
      }
    })
    stream?.once('close', () => emit(rest))
  }
}

/**
 * Reads into one buffer and hands out copies of the bytes that came. Node would allocate 64 KiB for each read, and a
 * response that is kept would keep all 64 KiB.
 */
function socketWithOwnBuffer(fd: number, onBytes: (chunk: Buffer) => void): Socket {
  const onread = {
    buffer: Buffer.allocUnsafe(64 * 1024),
    callback: (bytes: number, buffer: Uint8Array): boolean => {
      onBytes(Buffer.from(buffer.subarray(0, bytes)))
      return true
    },
  }
  const socket = new Socket({ fd, readable: true, writable: true, onread } as ConstructorParameters<typeof Socket>[0])
  socket.resume()
  return socket
}
