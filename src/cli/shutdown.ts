// The end of a server: the first SIGTERM or SIGINT drains it, a second signal ends the process at once.

import { constants } from 'node:os'
import { endWorkers } from '../base/running-workers.ts'
import { endProcess } from './end-process.ts'
import { isStartedByNpm, watchNpm, withoutEchoes } from './exit-signals.ts'
import type { LogWriter } from './log-writer.ts'

type ExitSignal = 'SIGTERM' | 'SIGINT'

/** After `--exit-timeout-secs`: when workers that have not left are ended by force, and when the process is. */
const workersGraceMs = 250
const processGraceMs = 600

/**
 * After the first signal nothing holds the server up for longer than its exit may take: no model that is stuck, that finalizes
 * or loads for ever, or that ignores what it is told.
 */
function limitExit(log: LogWriter, exitTimeoutSecs: number): void {
  const speaker = log.from('server.ts')
  setTimeout(
    () => {
      speaker.error('workers did not leave in time and are ended', { exit_timeout_secs: exitTimeoutSecs })
      process.exitCode = 1
      endWorkers()
    },
    exitTimeoutSecs * 1000 + workersGraceMs,
  )
  setTimeout(
    () => {
      speaker.error('failed to stop server in time: exiting at once', { exit_timeout_secs: exitTimeoutSecs })
      log.flushNow()
      endProcess(1, 'at once')
    },
    exitTimeoutSecs * 1000 + processGraceMs,
  )
}

/** Listens from this call on, so that a signal during the start is noticed too. */
export function createExitSignal(log: LogWriter, exitTimeoutSecs: number): { readonly received: Promise<ExitSignal> } {
  const { promise, resolve } = Promise.withResolvers<ExitSignal>()
  let isLeaving = false
  const leave = (signal: ExitSignal): void => {
    isLeaving = true
    limitExit(log, exitTimeoutSecs)
    resolve(signal)
  }
  const onSignal = withoutEchoes((signal: ExitSignal): void => {
    log.plain(`Signal (${constants.signals[signal]}) received.`)
    if (!isLeaving) return leave(signal)
    log.plain('Second signal: exiting at once, requests in flight are lost.')
    log.flushNow()
    endProcess(1, 'at once')
  })
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  if (isStartedByNpm(process.env)) {
    watchNpm(() => {
      if (isLeaving) return
      log.plain('The npm that started this server has ended: the server ends too.')
      leave('SIGTERM')
    })
  }
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
  endProcess(isInTime && process.exitCode === undefined ? 0 : 1)
}
