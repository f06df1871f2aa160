// One host: a process that runs a native backend, with a channel to the server for each instance.

import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync } from 'node:fs'
import type { Cancel, Clock } from '../../base/clock.ts'
import { noteWorker } from '../../base/running-workers.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { FrameSocket } from '../worker-process/frame-socket.ts'
import { readLines } from '../worker-process/printed-lines.ts'
import { createSocketPair } from '../worker-process/shared-memory.ts'
import type { TensorRegions } from '../worker-process/tensor-regions.ts'
import type { LinkedProcess, ProcessEvents } from '../worker-process/worker-process.ts'
import type { HostServices } from './host-services.ts'
import { sendDescriptors } from './send-descriptors.ts'

/** Frames are read for this long after the end of the process, and the end is waited for this long after the last frame. */
const lastWordsNs = 50e6
/** A host ends with its last channel. Its exit says more than the end of the connection. */
const exitNs = 1e9
/** A backend that crashes often says why on its last line. */
const lastLineLimit = 500

export class HostProcess {
  readonly #clock: Clock
  readonly #services: HostServices
  readonly #child: ChildProcess
  readonly #channels = new Set<HostChannel>()
  readonly #forget: () => void
  #control: number | null
  #exitReason: string | null = null
  #spawnFailure: Error | null = null
  #lastLine = ''
  /** Channels that were not told to end. */
  readonly #staying = new Set<HostChannel>()
  #hadChannels = false

  constructor(clock: Clock, services: HostServices, program: string, environment: NodeJS.ProcessEnv) {
    this.#clock = clock
    this.#services = services
    const pair = createSocketPair()
    if (pair === null)
      throw new ServerError('UNSUPPORTED', 'native backends need socket pairs, which this system does not have')
    this.#control = pair[0]
    this.#child = spawn(program, [], {
      env: environment,
      // A session of its own: Ctrl-C goes to the server alone, and what the backend starts can be ended as a group.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', pair[1]],
    })
    closeSync(pair[1])
    this.#forget = noteWorker(() => this.kill())
    this.#child.once('error', (error) => {
      this.#spawnFailure = error
      this.#onExit(messageOf(error))
    })
    this.#child.once('exit', (code, signal) => {
      this.#onExit(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`)
    })
    readLines(this.#child.stdout, (line) => this.#onLine(line, 'stdout'))
    readLines(this.#child.stderr, (line) => this.#onLine(line, 'stderr'))
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  get spawnFailure(): NodeJS.ErrnoException | null {
    return this.#spawnFailure
  }

  /** False from the moment when its last instance is about to end: then the process ends by itself. */
  get takesChannels(): boolean {
    return this.#exitReason === null && (!this.#hadChannels || this.#staying.size > 0)
  }

  get exitReason(): string | null {
    return this.#exitReason
  }

  openChannel(regions: TensorRegions | null, events: ProcessEvents): HostChannel {
    const pair = createSocketPair()
    if (pair === null || this.#control === null) throw new ServerError('UNAVAILABLE', 'the host process is gone')
    const memory = regions === null ? [] : [regions.inputs.fd, regions.outputs.fd]
    const channel = new HostChannel(this, this.#services, pair[0], events)
    this.#channels.add(channel)
    this.#staying.add(channel)
    this.#hadChannels = true
    try {
      sendDescriptors(this.#control, [pair[1], ...memory])
    } catch {
      // The process has just ended. Its exit tells the channel.
    }
    closeSync(pair[1])
    return channel
  }

  kill(): void {
    const { pid } = this.#child
    if (pid === undefined) return
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      this.#child.kill('SIGKILL')
    }
  }

  /** No more frames come from a channel: its instance has ended, or the process is about to. */
  channelClosed(channel: HostChannel): void {
    if (this.#exitReason !== null) channel.finish(this.#exitReason)
    else {
      const isLast = this.#channels.size === 1
      const tell = (): void => channel.finish(this.#exitReason ?? 'it closed its connection')
      this.#clock.after(isLast ? exitNs : lastWordsNs, tell)
    }
  }

  /** A channel is told to end. */
  leaving(channel: HostChannel): void {
    this.#staying.delete(channel)
  }

  gone(channel: HostChannel): void {
    this.#staying.delete(channel)
    this.#channels.delete(channel)
  }

  #onLine(line: string, stream: 'stdout' | 'stderr'): void {
    if (stream === 'stderr') this.#lastLine = line.trim().slice(0, lastLineLimit)
    for (const channel of this.#channels) {
      channel.events.onLine(line, stream)
      return
    }
  }

  #onExit(reason: string): void {
    if (this.#exitReason !== null) return
    const isCrash = !reason.endsWith('code 0') && !reason.endsWith('SIGKILL')
    this.#exitReason = isCrash && this.#lastLine !== '' ? `${reason}: ${this.#lastLine}` : reason
    this.#forget()
    this.#services.close()
    // Processes that the backend started must not outlive it.
    this.kill()
    if (this.#control !== null) closeSync(this.#control)
    this.#control = null
    const end: Cancel = this.#clock.after(lastWordsNs, () => {
      for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.destroy()
      for (const channel of this.#channels) channel.finish(this.#exitReason ?? reason)
    })
    if (this.#channels.size === 0) end()
  }
}

/** The part of a host that serves one instance. */
class HostChannel implements LinkedProcess {
  readonly events: ProcessEvents
  readonly #host: HostProcess
  readonly #socket: FrameSocket
  #hasEnded = false

  constructor(host: HostProcess, services: HostServices, fd: number, events: ProcessEvents) {
    this.#host = host
    this.events = events
    const serve = services.serving((frame) => this.send(frame))
    this.#socket = new FrameSocket(fd, {
      onFrame: (frame) => {
        if (!serve(frame)) this.events.onFrame(frame)
      },
      onBroken: (what) => {
        this.kill()
        this.finish(`it broke the protocol: ${what}`)
      },
      onClose: () => this.#host.channelClosed(this),
    })
  }

  get pid(): number | undefined {
    return this.#host.pid
  }

  get spawnFailure(): NodeJS.ErrnoException | null {
    return this.#host.spawnFailure
  }

  send(frame: Buffer): void {
    if (!this.#hasEnded && this.#host.exitReason === null) this.#socket.send(frame)
  }

  sendSoon(frame: Buffer): void {
    if (!this.#hasEnded && this.#host.exitReason === null) this.#socket.sendSoon(frame)
  }

  leaving(): void {
    this.#host.leaving(this)
  }

  kill(): void {
    this.#host.kill()
  }

  finish(reason: string): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#host.gone(this)
    this.#socket.close()
    this.events.onExit(reason)
  }
}
