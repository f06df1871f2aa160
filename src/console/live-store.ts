// What the server says of itself as it changes: one feed for the whole console, opened again when it breaks.

import { signal } from '@preact/signals'
import { InferenceError, type IndexEntry } from '../client/web.ts'
import { may, mayAll, refreshRights } from './caller-rights.ts'
import { accessKey, call, client, keyRefusal, messageOf, readFeed, ServerRefusal } from './server-api.ts'

export type Figures = Readonly<Record<string, number | null>>

type Facts = {
  readonly name: string
  readonly version: string
  readonly model_control: string
  readonly access?: boolean
  /** Somebody said what the server costs. */
  readonly cost?: boolean
  readonly jobs?: boolean
  readonly faults?: boolean
}

type Series = (number | null)[]

export type History = {
  readonly interval_s: number
  readonly until: number
  readonly figures: Readonly<Record<string, Series>>
  readonly versions?: Readonly<Record<string, Series>>
}

/** `lost`: shown figures are old. */
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting')
export const lostReason = signal('')
export const facts = signal<Facts | null>(null)
export const serverFigures = signal<Figures | null>(null)
/** By `model/version`. */
export const versionFigures = signal<ReadonlyMap<string, Figures>>(new Map())
/** Requests per second, newest last, by `model/version`; '' is the server. */
export const rateSeries = signal<ReadonlyMap<string, readonly number[]>>(new Map())
export const models = signal<readonly IndexEntry[] | null>(null)
/** Counts up with every sample. */
export const tick = signal(0)

const sparkPoints = 60
/** All sparklines show the same time, whatever is known of it. */
export const noRates: readonly number[] = Array.from({ length: sparkPoints }, () => 0)
const retryMs = 2000
const indexEverySamples = 5

type Sample = { readonly server: Figures; readonly versions: Record<string, Figures>; readonly gone?: string[] }

/** The list stays the same object while nothing has changed: there may be hundreds of rows that would be drawn again. */
export async function refreshModels(): Promise<void> {
  const found = await client.repositoryIndex()
  if (JSON.stringify(found) !== JSON.stringify(models.value)) models.value = found
}

/** Never ends. */
export async function followServer(): Promise<void> {
  let stop = new AbortController()
  accessKey.subscribe(() => stop.abort())
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) stop.abort()
  })
  for (;;) {
    stop = new AbortController()
    // Without a key every call would be refused, and too many refusals close the door for a while.
    if (!document.hidden && keyRefusal.value === '') await followOnce(stop.signal)
    const wait = document.hidden ? 500 : retryMs / (stop.signal.aborted ? 20 : 1)
    await new Promise((resolve) => {
      setTimeout(resolve, wait)
      stop.signal.addEventListener('abort', resolve)
    })
  }
}

async function followOnce(stop: AbortSignal): Promise<void> {
  try {
    await refreshRights()
    if (keyRefusal.value !== '') return
    // A caller who may not list models or see figures still has the other pages.
    if (may('model-repository')) await refreshModels()
    else models.value = []
    if (!mayAll('statistics')) {
      connection.value = 'open'
      return
    }
    await fillRates()
    await readFeed('/v2/live', stop, (data) => {
      connection.value = 'open'
      if ('model_control' in (data as object)) facts.value = data as Facts
      else take(data as Sample)
    })
    if (!stop.aborted) throw new Error('the server ended the connection')
  } catch (reason) {
    if (stop.aborted) return
    connection.value = isAway(reason) ? 'lost' : 'open'
    lostReason.value = messageOf(reason)
  }
}

/** The server did not answer, or said that it ends. A refusal is an answer. */
function isAway(reason: unknown): boolean {
  if (reason instanceof ServerRefusal) return reason.status === 503
  return !(reason instanceof InferenceError) || reason.status === null || reason.status === 503
}

async function fillRates(): Promise<void> {
  const history = (await call('/v2/live/history').catch(() => null)) as History | null
  if (history === null) return
  const filled = new Map<string, readonly number[]>()
  const recent = (series: Series): number[] => [...noRates, ...series.map((value) => value ?? 0)].slice(-sparkPoints)
  filled.set('', recent(history.figures['requests_per_s'] ?? []))
  for (const [key, series] of Object.entries(history.versions ?? {})) filled.set(key, recent(series))
  rateSeries.value = filled
}

function take({ server, versions, gone = [] }: Sample): void {
  const known = new Map(versionFigures.value)
  for (const [key, figures] of Object.entries(versions)) known.set(key, figures)
  for (const key of gone) known.delete(key)
  versionFigures.value = known
  serverFigures.value = server
  const rates = new Map<string, readonly number[]>()
  const add = (key: string, rate: number): void => {
    const old = rateSeries.value.get(key) ?? noRates
    // A version that nobody calls keeps its array, so that nothing is drawn again for it.
    const isQuiet = rate === 0 && old.every((each) => each === 0)
    rates.set(key, isQuiet ? old : [...old, rate].slice(-sparkPoints))
  }
  add('', server['requests_per_s'] ?? 0)
  for (const [key, figures] of known) add(key, figures['requests_per_s'] ?? 0)
  rateSeries.value = rates
  tick.value++
  if (tick.value % indexEverySamples === 0) void refreshModels().catch(() => undefined)
}
