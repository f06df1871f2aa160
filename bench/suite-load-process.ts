// The load of the suite, in a process of its own: `galatea perf`'s connections, ordered about by bench/suite-load.ts. It reads the
// server's processor time itself, at the very moments at which a measurement begins and ends.

import { setTimeout as pause } from 'node:timers/promises'
import { messageOf } from '../src/base/server-error.ts'
import { keepRequestsYoung } from '../src/cli/tune-collector.ts'
import { percentileOf } from '../src/perf/client-summary.ts'
import { LoadEngine } from '../src/perf/load/load-engine.ts'
import type { LoadLevel, LoadSetup } from '../src/perf/load/load-order.ts'
import { cpuMicrosecondsOf } from './process-usage.ts'

export type SuiteOrder =
  | { readonly kind: 'open'; readonly key: string; readonly setup: Omit<LoadSetup, 'counters' | 'share'> }
  | {
      readonly kind: 'run'
      readonly key: string
      readonly shape: LoadLevel['shape']
      /** The server's, whose CPU is counted with that of its children. */
      readonly pid: number
      readonly settleMs: number
      readonly windowMs: number
      /** A window of a slow server ends only when it has answered so many. */
      readonly atLeast: number
    }
  | { readonly kind: 'close'; readonly key: string }

export type SuiteRun = {
  readonly requests: number
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
  /** Of the server and its children, per request. */
  readonly cpuUs: number
  /** Refused or failed; more than none only where requests come whatever the server does. */
  readonly failed: number
  /** How busy the load was, 0 to 1. */
  readonly utilisation: number
}

export type SuiteReport =
  | { readonly kind: 'done' }
  | { readonly kind: 'ran'; readonly run: SuiteRun }
  | { readonly kind: 'failed'; readonly reason: string }

type Loaded = { readonly engine: LoadEngine; readonly counters: Int32Array }
const engines = new Map<string, Loaded>()
/** However few have been answered. */
const longestWindowMs = 8000
const pollMs = 20

async function obey(order: SuiteOrder): Promise<SuiteReport> {
  if (order.kind === 'open') {
    const counters = new SharedArrayBuffer(8)
    const engine = new LoadEngine({ ...order.setup, share: 0, counters }, () => undefined)
    engines.set(order.key, { engine, counters: new Int32Array(counters) })
    return { kind: 'done' }
  }
  const loaded = engines.get(order.key)
  if (loaded === undefined) throw new Error(`no load '${order.key}' is open`)
  if (order.kind === 'run') return { kind: 'ran', run: await measure(loaded, order) }
  engines.delete(order.key)
  return { kind: 'done' }
}

async function measure(
  { engine, counters }: Loaded,
  { shape, pid, settleMs, windowMs, atLeast }: Extract<SuiteOrder, { kind: 'run' }>,
): Promise<SuiteRun> {
  await engine.begin({ shape, sequences: 1, budget: null })
  try {
    await pause(settleMs)
    const doneBefore = counters[0] ?? 0
    const cpuBefore = cpuMicrosecondsOf(pid)
    engine.cut()
    const startedMs = performance.now()
    await pause(windowMs)
    while ((counters[0] ?? 0) - doneBefore < atLeast && performance.now() - startedMs < longestWindowMs)
      await pause(pollMs)
    const cpu = cpuMicrosecondsOf(pid) - cpuBefore
    const { count, failed, failures, durationMs, latenciesUs, utilisation } = engine.cut()
    const isOpenLoop = shape.kind !== 'concurrency'
    if (failed > 0 && !isOpenLoop) throw new Error(`${failed} requests failed: ${failures[0]?.[0] ?? ''}`)
    if (count === 0) throw new Error(`no request was answered within ${Math.round(durationMs)} ms`)
    const sorted = latenciesUs.toSorted()
    return {
      requests: count,
      perSecond: (count * 1000) / durationMs,
      p50Us: percentileOf(sorted, 50),
      p99Us: percentileOf(sorted, 99),
      cpuUs: cpu / count,
      failed,
      utilisation,
    }
  } finally {
    await engine.end()
  }
}

if (import.meta.main) {
  keepRequestsYoung()
  const send = (report: SuiteReport): void => void process.send?.(report)
  process.on('message', (order: SuiteOrder) => {
    obey(order).then(send, (reason: unknown) => send({ kind: 'failed', reason: messageOf(reason) }))
  })
  process.on('disconnect', () => process.exit(0))
}
