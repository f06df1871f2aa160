// The end of a server: the first SIGTERM or SIGINT drains it, a second signal ends the process at once.

import { constants } from 'node:os'
import type { LogWriter } from './log-writer.ts'

type ExitSignal = 'SIGTERM' | 'SIGINT'

/** Nobody presses Ctrl-C twice within this time. */
const echoMs = 200

type Arrival = { readonly signal: ExitSignal; readonly atMs: number }

/** Ctrl-C under `npm start` arrives twice, from the terminal and from npm. The second arrival is ignored. */
export const isEcho = (first: Arrival, next: Arrival): boolean =>
  next.signal === first.signal && next.atMs - first.atMs < echoMs

/** Listens from this call on, so that a signal during the start is noticed too. */
export function createExitSignal(log: LogWriter): { readonly received: Promise<ExitSignal> } {
  const { promise, resolve } = Promise.withResolvers<ExitSignal>()
  let first: Arrival | null = null
  const onSignal = (signal: ExitSignal): void => {
    const arrival = { signal, atMs: performance.now() }
    if (first !== null && isEcho(first, arrival)) return
    log.plain(`Signal (${constants.signals[signal]}) received.`)
    if (first === null) {
      first = arrival
      resolve(signal)
      return
    }
    log.plain('Second signal: exiting at once, requests in flight are lost.')
    log.flushNow()
    process.exit(1)
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return { received: promise }
}

interface Drainable {
  /** True when all requests ended in time. */
  drain(budgetMs: number): Promise<boolean>
}

/** Ends the process: with 0 when everything in flight ended within the budget, else with 1. */
export async function shutDown(log: LogWriter, server: Drainable, exitTimeoutSecs: number): Promise<never> {
  const speaker = log.from('server.ts')
  speaker.info('Waiting for in-flight requests to complete.')
  const isInTime = await server.drain(exitTimeoutSecs * 1000)
  if (!isInTime) {
    speaker.error('failed to stop server: requests in flight did not end in time', {
      exit_timeout_secs: exitTimeoutSecs,
    })
  }
  await log.flush()
  // The process does not wait for an empty event loop: a forgotten timer or a native thread could keep it alive.
  process.exit(isInTime ? 0 : 1)
}
