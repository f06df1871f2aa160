// One hour from the server's history, then second by second from the feed.

import { useEffect, useState } from 'preact/hooks'
import type { ChartSeries } from './chart.tsx'
import { serverFigures, tick, versionFigures, type Figures, type History } from './live-store.ts'
import { call } from './server-api.ts'

type Points = { readonly times: readonly number[]; readonly rows: readonly Figures[] }

const mostPoints = 1800

/** The figures of a version over time; of the server when the model is ''. */
export function useFigureSeries(model: string, version: string): Points {
  const [points, setPoints] = useState<Points>({ times: [], rows: [] })
  useEffect(() => {
    let isCurrent = true
    setPoints({ times: [], rows: [] })
    const query = model === '' ? '' : `?model=${encodeURIComponent(model)}&version=${encodeURIComponent(version)}`
    void call(`/v2/live/history${query}`)
      .catch(() => null)
      .then((found) => isCurrent && found !== null && setPoints((live) => joined(pointsOf(found as History), live)))
    return () => {
      isCurrent = false
    }
  }, [model, version])
  const now = tick.value
  useEffect(() => {
    const figures = model === '' ? serverFigures.value : versionFigures.value.get(`${model}/${version}`)
    if (figures === null || figures === undefined) return
    setPoints(({ times, rows }) => ({
      times: [...times, Date.now()].slice(-mostPoints),
      rows: [...rows, figures].slice(-mostPoints),
    }))
  }, [now, model, version])
  return points
}

export const seriesOf = ({ rows }: Points, names: Readonly<Record<string, string>>): ChartSeries[] =>
  Object.entries(names).map(([name, key]) => ({ name, values: rows.map((row) => row[key] ?? null) }))

export function useServerSeries(): {
  readonly times: readonly number[]
  readonly traffic: readonly ChartSeries[]
  readonly latency: readonly ChartSeries[]
} {
  const points = useFigureSeries('', '')
  return {
    times: points.times,
    traffic: seriesOf(points, { requests: 'requests_per_s', errors: 'errors_per_s' }),
    latency: seriesOf(points, { 'half below': 'p50_ms', '99 of 100 below': 'p99_ms' }),
  }
}

const joined = (old: Points, live: Points): Points => ({
  times: [...old.times, ...live.times],
  rows: [...old.rows, ...live.rows],
})

function pointsOf({ interval_s, until, figures }: History): Points {
  const names = Object.keys(figures)
  const count = figures[names[0] ?? '']?.length ?? 0
  const times = Array.from({ length: count }, (_, i) => until - (count - 1 - i) * interval_s * 1000)
  const rows = times.map((_, i) => Object.fromEntries(names.map((name) => [name, figures[name]?.[i] ?? null])))
  return { times, rows }
}
