// Charts over time. Each has its numbers as a table too, for those who cannot see it.

import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { scheme } from './scheme.ts'

export type ChartSeries = { readonly name: string; readonly values: readonly (number | null)[] }

const height = 190
const colours = ['--series-1', '--series-2', '--series-3', '--series-4']
const dashes: readonly (number[] | undefined)[] = [undefined, [6, 4], [2, 3], [10, 4, 2, 4]]

export function Chart({
  title,
  times,
  series,
  format,
}: {
  readonly title: string
  /** Milliseconds since 1970. */
  readonly times: readonly number[]
  readonly series: readonly ChartSeries[]
  readonly format: (value: number | null) => string
}): JSX.Element {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const look = scheme.value
  useEffect(() => {
    const box = place.current
    if (box === null) return undefined
    const made = new uPlot(optionsOf(series, format, box.clientWidth), dataOf(times, series), box)
    plot.current = made
    const observer = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height }))
    observer.observe(box)
    return () => {
      observer.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [look, series.map(({ name }) => name).join()])
  useEffect(() => plot.current?.setData(dataOf(times, series)), [times, series])
  const last = times.length - 1
  return (
    <figure class="chart">
      <figcaption>
        <h2 class="chart-title">{title}</h2>
        <span class="legend">
          {series.map(({ name, values }, i) => (
            <span key={name}>
              <i class={`swatch s${i + 1}`} aria-hidden="true" />
              {name} <b>{format(values[last] ?? null)}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div class="plot-place">
        <div ref={place} class="plot" aria-hidden="true" />
        {series.some(({ values }) => values.some((value) => value !== null)) ? null : (
          <p class="plot-empty">No request in this time</p>
        )}
      </div>
      <details>
        <summary>{title} as a table</summary>
        <TableTwin title={title} times={times} series={series} format={format} />
      </details>
    </figure>
  )
}

const twinRows = 12

function TableTwin({ title, times, series, format }: Parameters<typeof Chart>[0]): JSX.Element {
  const step = Math.max(1, Math.ceil(times.length / twinRows))
  const rows = times.map((_, i) => i).filter((i) => (times.length - 1 - i) % step === 0)
  return (
    <div class="table" role="region" aria-label={`${title}, numbers`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">time</th>
            {series.map(({ name }) => (
              <th scope="col" key={name} class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((i) => (
            <tr key={i}>
              <td>{new Date(times[i] ?? 0).toLocaleTimeString('en-GB')}</td>
              {series.map(({ name, values }) => (
                <td key={name} class="number">
                  {format(values[i] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A line needs two points beside each other: a point that has no neighbour shows as a point. */
const lonePoints = (values: ArrayLike<number | null | undefined>): number[] =>
  Array.from(values, (value, i) => ((value ?? null) === null ? -1 : i)).filter(
    (i) => i >= 0 && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null,
  )

const leastSeconds = 60

/** At least a minute, so that the first points have times that can be read. */
function rangeOfTime(times: ArrayLike<number>): [number, number] {
  const end = times[times.length - 1] ?? Date.now() / 1000
  return [Math.min(times[0] ?? end, end - leastSeconds), end]
}

const clockText = (seconds: number): string => new Date(seconds * 1000).toLocaleTimeString('en-GB')

const dataOf = (times: readonly number[], series: readonly ChartSeries[]): uPlot.AlignedData => [
  times.map((ms) => ms / 1000),
  ...series.map(({ values }) => [...values]),
]

function optionsOf(
  series: readonly ChartSeries[],
  format: (value: number | null) => string,
  width: number,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement)
  const token = (name: string): string => style.getPropertyValue(name).trim()
  const axis = { stroke: token('--text-soft'), grid: { stroke: token('--line'), width: 1 }, ticks: { show: false } }
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 12, 0, 0],
    cursor: { y: false },
    scales: {
      x: { range: (plot) => rangeOfTime(plot.data[0]) },
      y: { range: (_, low, high) => [Math.min(0, low), high <= 0 || high === null ? 1 : high * 1.1] },
    },
    axes: [
      { ...axis, size: 26, font: '11px system-ui, sans-serif', space: 90, values: (_, ticks) => ticks.map(clockText) },
      {
        ...axis,
        size: 56,
        font: '11px system-ui, sans-serif',
        values: (_, ticks) => ticks.map((value) => format(value).replace(/\.0(?= |$)/, '')),
      },
    ],
    series: [
      {},
      ...series.map(({ name }, i) => ({
        label: name,
        stroke: token(colours[i] ?? '--series-1'),
        width: 2,
        spanGaps: false,
        points: { show: true, size: 5, filter: (plot: uPlot, at: number) => lonePoints(plot.data[at] ?? []) },
        ...(dashes[i] === undefined ? {} : { dash: dashes[i] }),
        ...(i === 0 ? { fill: token('--series-fill') } : {}),
      })),
    ],
  }
}

/** A line without axes, beside the number that it explains. */
export function Sparkline({ values }: { readonly values: readonly number[] }): JSX.Element {
  const [width, tall] = [96, 24]
  const top = Math.max(1e-9, ...values)
  const points = values.map((value, i) => {
    const x = values.length < 2 ? width : (i / (values.length - 1)) * width
    return `${x.toFixed(1)},${(tall - 2 - (value / top) * (tall - 4)).toFixed(1)}`
  })
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${tall}`} width={width} height={tall} aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  )
}
