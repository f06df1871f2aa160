// A Worker that is a Node process of its own: a crash of native code does not reach the server.

import { fork } from 'node:child_process'
import type { Readable } from 'node:stream'
import { noteWorker } from '../base/running-workers.ts'
import { lineSplitter } from './line-splitter.ts'
import { processState, type CpuUsage } from './worker-pulse.ts'

type ForkedEvents<Received> = {
  onMessage(message: Received): void
  onLine(line: string, isError: boolean): void
  /** Called once. */
  onExit(reason: string): void
}

export type ForkedProcess<Sent> = {
  readonly processId: number | undefined
  /** A message to a process that has just died is lost; `onExit` follows. */
  post(message: Sent): void
  cpuUsage(): Promise<CpuUsage | null>
  /** Resolves when the process is gone. */
  readonly gone: Promise<void>
  /** Ends the process by force. Resolves when it is gone. */
  terminate(): Promise<void>
}

/** `entry` is the file that the process runs. Every byte of a message is copied through a pipe. */
export function forkProcess<Sent extends object, Received>(
  entry: string,
  options: { readonly environment: NodeJS.ProcessEnv; readonly nodeOptions: readonly string[] },
  events: ForkedEvents<Received>,
): ForkedProcess<Sent> {
  let isTerminated = false
  let isConnected = true
  const gone = Promise.withResolvers<void>()
  const child = fork(entry, [], {
    serialization: 'advanced',
    env: options.environment,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    execArgv: [...options.nodeOptions],
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
  child.on('message', (message) => events.onMessage(message as Received))
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
  return {
    post: (message) => void (isConnected && child.send(message, () => undefined)),
    cpuUsage: async () => (child.pid === undefined ? null : ((await processState(child.pid))?.cpu ?? null)),
    processId: child.pid,
    gone: gone.promise,
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
