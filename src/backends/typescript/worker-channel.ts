import type { CpuUsage } from '../worker-pulse.ts'
import type { FromWorker, ToWorker, WorkerTask } from './worker-protocol.ts'

/** The way to one Worker and back, whether it is a thread or a process. */
export interface WorkerChannel {
  post(message: ToWorker, transfer: readonly ArrayBuffer[]): void
  /** What it has used of the CPU since it began; null where nobody can tell. */
  cpuUsage(): Promise<CpuUsage | null>
  /** Of a Worker that is a process. */
  readonly processId?: number | undefined
  /** Ends the Worker now. Resolves when it is gone. */
  terminate(): Promise<void>
}

export type ChannelEvents = {
  onMessage(envelope: FromWorker): void
  /** A line that the code wrote to its standard output or standard error. */
  onLine(line: string, isError: boolean): void
  /** Once, and last: the Worker is gone, and why in words. */
  onExit(reason: string): void
}

export type WorkerLimits = {
  /** 0: an execution may take for ever. */
  readonly maxExecutionMs: number
  /** Loading the code and its `initialize`; 0: for ever. */
  readonly maxInitializeMs: number
  /** JavaScript heap; 0: Node's own limit. Typed arrays lie outside of it. */
  readonly maxMemoryMb: number
  readonly isolation: 'thread' | 'process'
}

export type OpenChannel = (task: WorkerTask, limits: WorkerLimits, events: ChannelEvents) => WorkerChannel

/** A line longer than this is cut into several, so that code that never ends its line does not fill the memory. */
const maxLineLength = 8192

/** Turns chunks of text into lines. */
export function lineSplitter(onLine: (line: string) => void): { push(text: string): void; end(): void } {
  let rest = ''
  return {
    push(text) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) onLine(line)
      while (rest.length > maxLineLength) {
        onLine(rest.slice(0, maxLineLength))
        rest = rest.slice(maxLineLength)
      }
    },
    end() {
      if (rest !== '') onLine(rest)
      rest = ''
    },
  }
}

/** Node's remark about a file without a package.json would be made for every model, and is no news. */
export const workerNodeOptions: readonly string[] = ['--disable-warning=MODULE_TYPELESS_PACKAGE_JSON']
