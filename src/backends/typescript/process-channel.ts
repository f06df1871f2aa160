import { fork } from 'node:child_process'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { workerEnvironment } from '../../base/worker-environment.ts'
import { noteWorker } from '../../base/running-workers.ts'
import { processState } from '../worker-pulse.ts'
import { lineSplitter, workerNodeOptions, type OpenChannel } from './worker-channel.ts'
import type { FromWorker } from './worker-protocol.ts'

const entry = fileURLToPath(new URL(`./model-worker${path.extname(import.meta.url)}`, import.meta.url))

/**
 * A Worker in a process of its own: a crash of native code does not reach the server. Every byte is copied through a
 * pipe, so a process costs more per request than a thread.
 */
export const openProcess: OpenChannel = (task, limits, events, environment = workerEnvironment([])) => {
  let isTerminated = false
  let isConnected = true
  const gone = Promise.withResolvers<void>()
  const child = fork(entry, [], {
    serialization: 'advanced',
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    execArgv: [...workerNodeOptions, ...(limits.maxMemoryMb > 0 ? [`--max-old-space-size=${limits.maxMemoryMb}`] : [])],
  })
  const forget = noteWorker(() => void child.kill('SIGKILL'))
  const lastWords: string[] = []
  if (child.stdout !== null) forwardLines(child.stdout, (line) => events.onLine(line, false))
  if (child.stderr !== null) {
    forwardLines(child.stderr, (line) => {
      if (lastWords.length < 40) lastWords.push(line)
      events.onLine(line, true)
    })
  }
  child.on('message', (envelope) => events.onMessage(envelope as FromWorker))
  child.on('disconnect', () => (isConnected = false))
  child.on('error', (reason) => finish(`its process could not be run: ${reason.message}`))
  child.on('close', (code, signal) => {
    finish(isTerminated ? 'it was ended' : exitText(code, signal, lastWords))
  })
  const finish = onceOnly((reason: string) => {
    isConnected = false
    forget()
    gone.resolve()
    events.onExit(reason)
  })
  child.send(task)
  return {
    // A message to a process that has just died is lost; the 'close' event of the process follows.
    post: (message) => void (isConnected && child.send(message, () => undefined)),
    cpuUsage: async () => (child.pid === undefined ? null : ((await processState(child.pid))?.cpu ?? null)),
    processId: child.pid,
    terminate: async () => {
      isTerminated = true
      child.kill('SIGKILL')
      await gone.promise
    },
  }
}

function exitText(code: number | null, signal: NodeJS.Signals | null, lastWords: readonly string[]): string {
  if (lastWords.some((line) => line.includes('heap out of memory'))) return 'out of memory'
  const thrown = lastWords.find((line) => /^(\w*Error|Uncaught)\b/.test(line))
  if (thrown !== undefined) return `uncaught exception: ${thrown}`
  return signal === null ? `its process ended with exit code ${code}` : `its process was ended by ${signal}`
}

function forwardLines(stream: Readable, onLine: (line: string) => void): void {
  const splitter = lineSplitter(onLine)
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => splitter.push(text))
  stream.on('end', () => splitter.end())
}

function onceOnly(act: (reason: string) => void): (reason: string) => void {
  let isDone = false
  return (reason) => {
    if (isDone) return
    isDone = true
    act(reason)
  }
}
