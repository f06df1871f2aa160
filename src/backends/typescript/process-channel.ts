import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { workerEnvironment } from '../../base/worker-environment.ts'
import { forkProcess } from '../forked-process.ts'
import { workerNodeOptions, type OpenChannel } from './worker-channel.ts'
import type { FromWorker, ToWorker, WorkerTask } from './worker-protocol.ts'

const entry = fileURLToPath(new URL(`./model-worker${path.extname(import.meta.url)}`, import.meta.url))

/**
 * A Worker in a process of its own: a crash of native code does not reach the server. Every byte is copied through a
 * pipe, so a process costs more per request than a thread.
 */
export const openProcess: OpenChannel = (task, limits, events, environment = workerEnvironment([])) => {
  const memory = limits.maxMemoryMb > 0 ? [`--max-old-space-size=${limits.maxMemoryMb}`] : []
  const options = { environment, nodeOptions: [...workerNodeOptions, ...memory] }
  const child = forkProcess<ToWorker | WorkerTask, FromWorker>(entry, options, events)
  child.post(task)
  return { ...child, post: (message) => child.post(message) }
}
