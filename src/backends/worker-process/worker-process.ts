// One process that runs a model: starts it, receives its frames and its printed lines, and notices its end.

import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync } from 'node:fs'
import type { Duplex } from 'node:stream'
import type { Cancel, Clock } from '../../base/clock.ts'
import { noteWorker } from '../../base/running-workers.ts'
import { messageOf } from '../../base/server-error.ts'
import { FrameSocket } from './frame-socket.ts'
import { readLines } from './printed-lines.ts'
import { createSocketPair } from './shared-memory.ts'
import type { TensorRegions } from './tensor-regions.ts'

type WorkerCommand = {
  readonly executable: string
  readonly arguments: readonly string[]
  readonly environment: NodeJS.ProcessEnv
  readonly directory: string
}

export type ProcessEvents = {
  onFrame(frame: Buffer): void
  onLine(line: string, stream: 'stdout' | 'stderr'): void
  /** Called once. No frame comes after it. */
  onExit(reason: string): void
}

/** A process, or the part of one that serves an instance. */
export interface LinkedProcess {
  readonly pid: number | undefined
  /** Set when the program does not exist or may not be run. */
  readonly spawnFailure: NodeJS.ErrnoException | null
  send(frame: Buffer): void
  /** For frames that the worker does not wait for: sent with the next frame, or at the end of this turn. */
  sendSoon(frame: Buffer): void
  /** The instance will be told to end. For a process that others use too. */
  leaving?(): void
  /** Ends the process and everything it started. */
  kill(): void
}

const socketFd = 3
export const inputsFd = 4
export const outputsFd = 5
/** The output of a worker is read for this long after its end. A process that it started may keep the pipes open longer. */
const lastWordsNs = 50e6

export class WorkerProcess implements LinkedProcess {
  readonly #clock: Clock
  readonly #events: ProcessEvents
  readonly #child: ChildProcess
  readonly #socket: FrameSocket | null
  #exitReason: string | null = null
  #hasEnded = false
  #isReadable = true
  #cancelWait: Cancel | null = null
  #spawnFailure: Error | null = null
  readonly #forget: () => void

  constructor(clock: Clock, command: WorkerCommand, regions: TensorRegions | null, events: ProcessEvents) {
    this.#clock = clock
    this.#events = events
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
    this.#child.once('error', (error) => {
      this.#spawnFailure = error
      this.#onExit(messageOf(error))
    })
    this.#child.once('exit', (code, signal) => {
      this.#onExit(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`)
    })
    const end = pair === null ? (this.#child.stdio[socketFd] as Duplex | null | undefined) : pair[0]
    if (pair !== null) closeSync(pair[1])
    this.#socket = end === undefined || end === null ? null : this.#connect(end)
    readLines(this.#child.stdout, (line) => this.#events.onLine(line, 'stdout'))
    readLines(this.#child.stderr, (line) => this.#events.onLine(line, 'stderr'))
  }

  #connect(end: number | Duplex): FrameSocket {
    return new FrameSocket(end, {
      onFrame: (frame) => this.#events.onFrame(frame),
      onBroken: (what) => this.#broken(what),
      onClose: () => {
        this.#isReadable = false
        if (this.#exitReason !== null) this.#finish()
      },
    })
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
    if (this.#exitReason === null) this.#socket?.send(frame)
  }

  /** For frames that the worker does not wait for: sent with the next frame, or at the end of this turn. */
  sendSoon(frame: Buffer): void {
    if (this.#exitReason === null) this.#socket?.sendSoon(frame)
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
    this.#socket?.close()
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.destroy()
    this.#events.onExit(this.#exitReason ?? 'it closed its connection')
  }
}
