// When what was used, kept in the state folder, so that use and cost can be told for a time before the last start.

import { join } from 'node:path'
import { setImmediate as turnPassed } from 'node:timers/promises'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { KeptFile } from './kept-file.ts'
import type { UseHistory, UsePast } from './use-history.ts'

/** To write a row takes about half a microsecond. */
const rowsPerTurn = 2000
const minuteMs = 60_000

export const useFile = (
  dependencies: { readonly clock: Clock; readonly log: Log },
  folder: string,
  name: 'tenants' | 'models',
  history: UseHistory,
): KeptFile =>
  new KeptFile(dependencies, {
    what: `the use of ${name}`,
    path: join(folder, `use-of-${name}.json`),
    text: () => pastText(history.past),
    take: (text) => history.resume(parsePast(JSON.parse(text))),
  })

async function pastText({ keptSinceMs, lastMs, pauses, hours, minutes }: UsePast): Promise<string> {
  const lists: string[] = []
  let rows = 0
  for (const list of [hours, minutes]) {
    const pieces: string[] = []
    for (const { fromMs, use } of list) {
      pieces.push(JSON.stringify([fromMs, [...use]]))
      rows += use.size
      if (rows > rowsPerTurn) {
        rows = 0
        await turnPassed()
      }
    }
    lists.push(`[${pieces.join(',')}]`)
  }
  if (lists.every((list) => list === '[]')) return ''
  const [hourText = '[]', minuteText = '[]'] = lists
  // By the minute, so that a server that does nothing writes once a minute.
  const seenMs = Math.max(keptSinceMs, Math.floor(lastMs / minuteMs) * minuteMs)
  return `{"keptSinceMs":${keptSinceMs},"lastMs":${seenMs},"pauses":${JSON.stringify(pauses)},"hours":${hourText},"minutes":${minuteText}}`
}

/** Throws where the file is not what `pastText` writes: somebody else may have changed it. */
function parsePast(value: unknown): UsePast {
  const { keptSinceMs, lastMs, pauses, hours, minutes } = value as Record<string, unknown>
  const time = (ms: unknown): number => {
    if (typeof ms !== 'number' || !Number.isFinite(ms)) throw new Error(`expected a time, found ${JSON.stringify(ms)}`)
    return ms
  }
  const list = (of: unknown): unknown[] => {
    if (!Array.isArray(of)) throw new Error('expected a list')
    return of
  }
  const counts = (row: unknown): [string, number[]] => {
    const [name, numbers] = list(row)
    if (typeof name !== 'string') throw new Error('expected a name')
    return [name, list(numbers).map(time)]
  }
  const buckets = (of: unknown): UsePast['hours'] =>
    list(of).map((bucket) => {
      const [fromMs, rows] = list(bucket)
      return { fromMs: time(fromMs), use: new Map(list(rows).map(counts)) }
    })
  return {
    keptSinceMs: time(keptSinceMs),
    lastMs: time(lastMs),
    pauses: list(pauses).map((pause) => list(pause).map(time)) as [number, number][],
    hours: buckets(hours),
    minutes: buckets(minutes),
  }
}
