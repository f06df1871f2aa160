import path from 'node:path'
import type { Readable } from 'node:stream'
import { Worker as Thread } from 'node:worker_threads'
import { noteWorker } from '../../base/running-workers.ts'
import { messageOf } from '../../base/server-error.ts'
import { threadCpu } from '../worker-pulse.ts'
import { lineSplitter } from '../line-splitter.ts'
import { workerNodeOptions, type ChannelEvents, type OpenChannel } from './worker-channel.ts'
import type { FromWorker } from './worker-protocol.ts'

export const workerEntry = new URL(`./model-worker${path.extname(import.meta.url)}`, import.meta.url)

/** A Worker in a thread of this process: memory is transferred, and an error of its JavaScript ends only the thread. */
export const openThread: OpenChannel = (task, limits, events) => {
  let failure: string | null = null
  let isTerminated = false
  const thread = new Thread(workerEntry, {
    name: task.place.modelInstanceName.slice(0, 15),
    workerData: task,
    stdout: true,
    stderr: true,
    execArgv: [...workerNodeOptions],
    ...(limits.maxMemoryMb > 0 ? { resourceLimits: { maxOldGenerationSizeMb: limits.maxMemoryMb } } : {}),
  })
  const forget = noteWorker(() => void thread.terminate())
  forwardLines(thread.stdout, events, false)
  forwardLines(thread.stderr, events, true)
  thread.on('message', (envelope: FromWorker) => events.onMessage(envelope))
  thread.on('messageerror', (reason) => {
    failure ??= `it sent what cannot be read: ${reason.message}`
    void thread.terminate()
  })
  // Uncaught errors and unhandled rejections of the thread come here. The thread ends; 'exit' follows.
  thread.on('error', (reason) => {
    failure ??= failureText(reason, limits.maxMemoryMb)
  })
  thread.on('exit', (code) => {
    forget()
    events.onExit(failure ?? (isTerminated ? 'it was ended' : `its code called process.exit(${code})`))
  })
  return {
    post: (message, transfer) => thread.postMessage(message, transfer),
    cpuUsage: () => threadCpu(thread),
    terminate: async () => {
      isTerminated = true
      await thread.terminate()
    },
  }
}

/** Of an error that ended a thread. */
export function failureText(reason: unknown, maxMemoryMb: number): string {
  if (reason instanceof Error && 'code' in reason && reason.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return `out of memory (${maxMemoryMb > 0 ? `max_memory_mb is ${maxMemoryMb}` : 'set max_memory_mb to give it more'})`
  }
  const name = reason instanceof Error ? `${reason.name}: ` : ''
  return `uncaught exception: ${name}${messageOf(reason)}`
}

export function forwardLines(stream: Readable, events: Pick<ChannelEvents, 'onLine'>, isError: boolean): void {
  const splitter = lineSplitter((line) => events.onLine(line, isError))
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => splitter.push(text))
  stream.on('end', () => splitter.end())
}
