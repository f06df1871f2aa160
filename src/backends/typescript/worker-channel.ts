import type { CpuUsage } from '../worker-pulse.ts'
import type { FromWorker, ToWorker, WorkerTask } from './worker-protocol.ts'

/** The server's connection to one Worker, a thread or a process. */
export interface WorkerChannel {
  post(message: ToWorker, transfer: readonly ArrayBuffer[]): void
  /** The CPU time of the Worker since its start; null when the system cannot tell. */
  cpuUsage(): Promise<CpuUsage | null>
  /** Only for a Worker that is a process. */
  readonly processId?: number | undefined
  /** Ends the Worker now. Resolves when it is gone. */
  terminate(): Promise<void>
}

export type ChannelEvents = {
  onMessage(envelope: FromWorker): void
  /** A line that the code wrote to its standard output or standard error. */
  onLine(line: string, isError: boolean): void
  /** The last call, made once: the Worker has ended for this reason. */
  onExit(reason: string): void
}

export type WorkerLimits = {
  /** 0: no limit. */
  readonly maxExecutionMs: number
  /** The time to load the code and run its `initialize`; 0: no limit. */
  readonly maxInitializeMs: number
  /** The JavaScript heap, without typed arrays; 0: Node's own limit. */
  readonly maxMemoryMb: number
  readonly isolation: 'thread' | 'process'
}

export type OpenChannel = (
  task: WorkerTask,
  limits: WorkerLimits,
  events: ChannelEvents,
  /** Of a process; absent: what a worker needs of the server's own. */
  environment?: NodeJS.ProcessEnv,
) => WorkerChannel

/** Without this, Node would warn for every model that its file has no package.json. */
export const workerNodeOptions: readonly string[] = ['--disable-warning=MODULE_TYPELESS_PACKAGE_JSON']
