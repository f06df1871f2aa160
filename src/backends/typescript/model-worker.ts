// The program of a Worker that runs TypeScript, in a thread or a process. It loads the code, initialises it, and then
// handles messages of the server until the message `finish`.

import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { parentPort, workerData } from 'node:worker_threads'
import type { LogFields, LogLevel } from '../../base/log.ts'
import { backendProgram } from './backend-program.ts'
import { BackendRoom } from './backend-room.ts'
import { InferenceError } from './inference-error.ts'
import type { ModelArgs } from './model.ts'
import { errorText, ModelHost } from './model-host.ts'
import { createMetrics } from './model-metrics.ts'
import { packagePrefix, registerModuleHooks } from './module-hooks.ts'
import { Outbox } from './outbox.ts'
import { modelProgram, type Program } from './program.ts'
import { loadAdvice } from './script-source.ts'
import type {
  FromSharedWorker,
  FromWorker,
  ToSharedWorker,
  ToWorker,
  WorkerMessage,
  WorkerTask,
} from './worker-protocol.ts'

const readinessIntervalMs = 1000

/** The connection to the server, the same for a thread and a process. */
type Port = {
  post(envelope: FromWorker, transfer: ArrayBuffer[]): void
  listen(receive: (message: ToWorker) => void): void
  leave(): void
}

function threadPort(port: NonNullable<typeof parentPort>): Port {
  return {
    post: (envelope, transfer) => {
      try {
        port.postMessage(envelope, transfer)
      } catch {
        // Some memory cannot be transferred, as that of WebAssembly, and only the attempt shows it. So it is copied.
        port.postMessage(envelope)
      }
    },
    listen: (receive) => void port.on('message', receive),
    leave: () => process.exit(0),
  }
}

function processPort(): Port {
  const send = process.send?.bind(process)
  // Ctrl-C reaches every process of a terminal, but only the server decides when the Worker ends.
  process.on('SIGINT', () => undefined)
  return {
    post: (envelope) => void send?.(envelope),
    listen: (receive) => {
      process.on('message', (message) => receive(message as ToWorker))
      // The server is gone: nobody waits for an answer.
      process.on('disconnect', () => process.exit(0))
    },
    leave: () => process.disconnect?.(),
  }
}

/** One of many instances in this thread, which does not end with it. */
function sharedPort(
  parent: NonNullable<typeof parentPort>,
  channel: number,
  listeners: Map<number, (message: ToWorker) => void>,
): Port {
  const thread = threadPort(parent)
  return {
    post: (envelope, transfer) => thread.post({ channel, envelope } satisfies FromSharedWorker as never, transfer),
    listen: (receive) => void listeners.set(channel, receive),
    leave: () => {
      listeners.delete(channel)
      parent.postMessage({ channel, envelope: null } satisfies FromSharedWorker, [])
    },
  }
}

async function loadProgram(task: WorkerTask, room: BackendRoom): Promise<Program> {
  const { program } = task
  const address = program.path.startsWith(packagePrefix) ? program.path : pathToFileURL(program.path).href
  const exports = (await import(address)) as Record<string, unknown>
  return program.kind === 'model' ? modelProgram(exports, program.path) : backendProgram(exports, program, room)
}

const plainText = (value: unknown): string =>
  typeof value === 'string' ? value : inspect(value, { depth: 2, breakLength: Infinity })

/** Values that cannot be sent to the server become text. */
function plainFields(fields: Readonly<Record<string, unknown>>): LogFields {
  const plain: Record<string, LogFields[string]> = {}
  for (const [key, value] of Object.entries(fields)) {
    const isPlain = value === null || ['string', 'number', 'boolean', 'bigint', 'undefined'].includes(typeof value)
    plain[key] = isPlain ? (value as LogFields[string]) : plainText(value)
  }
  return plain
}

function createLog(outbox: Pick<Outbox, 'add'>): ModelArgs['log'] {
  const line =
    (level: LogLevel) =>
    (message: unknown, fields: Readonly<Record<string, unknown>> = {}) => {
      outbox.add({ kind: 'log', level, message: plainText(message), fields: plainFields(fields) })
    }
  return { error: line('error'), warning: line('warning'), info: line('info'), verbose: line('verbose') }
}

/** Reports every change of the model's readiness; a check that throws counts as not ready. */
function watchReadiness(isReady: () => unknown, outbox: Outbox): NodeJS.Timeout {
  let wasReady = true
  let isAsking = false
  const ask = async (): Promise<void> => {
    if (isAsking) return
    isAsking = true
    const isReadyNow = await Promise.try(isReady).then(
      (answer) => answer === true,
      () => false,
    )
    isAsking = false
    if (isReadyNow === wasReady) return
    wasReady = isReadyNow
    outbox.add({ kind: 'readiness', isReady: isReadyNow })
  }
  void ask()
  return setInterval(() => void ask(), readinessIntervalMs)
}

async function serve(program: Program, task: WorkerTask, port: Port, outbox: Outbox): Promise<void> {
  const metrics = createMetrics((message) => outbox.add(message))
  await program.initialize({ ...task.place, modelConfig: task.config, log: createLog(outbox), metrics }, task.load)
  const host = new ModelHost(program, outbox, task)
  const readiness = program.isReady === null ? null : watchReadiness(program.isReady, outbox)
  const finish = async (): Promise<void> => {
    if (readiness !== null) clearInterval(readiness)
    try {
      await program.finalize()
    } catch (reason) {
      outbox.add({ kind: 'log', level: 'error', message: `finalize failed: ${errorText(reason)}`, fields: {} })
    }
    outbox.flush()
    port.leave()
  }
  port.listen((message) => {
    if (message.kind === 'execute') void host.execute(message.requests, message.buffers)
    else if (message.kind === 'cancel') host.cancel(message.key)
    else if (message.kind === 'taken') host.taken(message.key, message.count, message.bytes)
    else if (message.kind === 'ping') outbox.add({ kind: 'pong' })
    else void finish()
  })
  outbox.add({ kind: 'started' })
}

/** The place of a load error as ` (file:line:column)`, for the author of the model. */
function whereText(reason: unknown, task: WorkerTask): string {
  const [first = '', ...frames] = (reason instanceof Error ? (reason.stack ?? '') : '').split('\n')
  // The type stripper puts the place before the message.
  if (/:\d+$/.test(first)) return ` (${first})`
  const frame = frames.find((line) => line.includes('file://') && !line.includes(import.meta.dirname))
  const place = /file:\/\/([^)]+)/.exec(frame ?? '')?.[1]
  return place !== undefined ? ` (${place})` : reason instanceof SyntaxError ? ` (${task.program.path})` : ''
}

function loadErrorText(reason: unknown, task: WorkerTask): string {
  const advice = loadAdvice(reason)
  return errorText(reason) + whereText(reason, task) + (advice === '' ? '' : `; ${advice}`)
}

async function run(task: WorkerTask, port: Port, room = new BackendRoom(null, false)): Promise<void> {
  const outbox = new Outbox((envelope, transfer) => port.post(envelope, transfer))
  try {
    const program = await loadProgram(task, room)
    if (task.purpose === 'serve') {
      await serve(program, task, port, outbox)
      return
    }
    // Cloned here, so that a function in the description is reported as an error of this model.
    outbox.add({ kind: 'described', description: structuredClone(await program.describe(task.config)) })
  } catch (reason) {
    const code = reason instanceof InferenceError ? reason.code : 'INTERNAL'
    const message = reason instanceof InferenceError ? reason.message : loadErrorText(reason, task)
    const stack = reason instanceof Error ? (reason.stack ?? '') : ''
    outbox.add({ kind: 'log', level: 'verbose', message: 'load failed', fields: { stack } })
    outbox.add({ kind: 'refused', code, message })
  }
  outbox.flush()
  port.leave()
}

/** Runs all instances of a custom backend in this thread, until the server says that no more come. */
function runShared(parent: NonNullable<typeof parentPort>): void {
  const listeners = new Map<number, (message: ToWorker) => void>()
  // At once: the order of these lines and of what the instances say must stay.
  const add = (message: WorkerMessage): void =>
    parent.postMessage({ channel: 0, envelope: { messages: [message], buffers: [] } } satisfies FromSharedWorker, [])
  const room = new BackendRoom(createLog({ add }), true)
  const end = async (): Promise<void> => {
    try {
      await room.end()
    } catch (reason) {
      add({ kind: 'log', level: 'error', message: `finalize failed: ${errorText(reason)}`, fields: {} })
    }
    process.exit(0)
  }
  parent.on('message', (order: ToSharedWorker) => {
    if (order.kind === 'tell') listeners.get(order.channel)?.(order.message)
    else if (order.kind === 'open') void run(order.task, sharedPort(parent, order.channel, listeners), room)
    else void end()
  })
}

registerModuleHooks()
if (parentPort !== null && workerData === null) {
  runShared(parentPort)
} else if (parentPort !== null) {
  await run(workerData as WorkerTask, threadPort(parentPort))
} else {
  process.once('message', (task) => void run(task as WorkerTask, processPort()))
}
