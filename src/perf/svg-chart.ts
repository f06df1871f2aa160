// Line and bar charts as SVG text, for reports and for the figures of guides: no dependencies, no fonts of their own, colours
// that read on a light page and on a dark one. Equal input gives equal text, so figures diff well.

import { escapeText } from './html-page.ts'

/** `mark` is written beside the point. */
export type ChartPoint = readonly [x: number, y: number, mark?: string]

export type ChartSeries = {
  readonly name: string
  readonly points: readonly ChartPoint[]
  /** Dashes for a mark: a target or a limit. */
  readonly isDashed?: boolean
}

type ChartAxis = {
  readonly label: string
  /** Default: 0 or the smallest value, whichever is less. */
  readonly min?: number
  readonly max?: number
  /** For values over several orders of magnitude; all of them must be more than 0. */
  readonly isLogarithmic?: boolean
}

type LineChart = {
  readonly title: string
  readonly x: ChartAxis
  readonly y: ChartAxis
  readonly series: readonly ChartSeries[]
  /** A line under the chart: the machine, the command, the date. */
  readonly note?: string
}

type BarChart = {
  readonly title: string
  readonly y: ChartAxis
  /** Groups along the x axis. */
  readonly categories: readonly string[]
  /** One value per category each; NaN where there is none. */
  readonly series: readonly { readonly name: string; readonly values: readonly number[] }[]
  readonly note?: string
}

const width = 720
const height = 400
const plot = { left: 72, right: width - 20, top: 76, bottom: height - 76 }
const colours = ['#2f7ed8', '#e8710a', '#2e9e5b', '#b5479d', '#8a6d3b', '#0e9aa7']

/** The colours of text and grid follow the reader's system setting, because an SVG cannot ask its page. */
const style =
  'text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}.note{font-size:11px;fill:#6e7781}' +
  '.grid{stroke:#d0d7de;stroke-width:1}.axis{stroke:#57606a;stroke-width:1}.back{fill:#fff}' +
  '@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#8b949e}.grid{stroke:#30363d}.axis{stroke:#8b949e}.back{fill:#0d1117}}'

export function lineChart({ title, x, y, series, note }: LineChart): string {
  const points = series.flatMap((each) => each.points)
  const across = scaleOf(x, points.map((point) => point[0]), plot.left, plot.right) // prettier-ignore
  const up = scaleOf(y, points.map((point) => point[1]), plot.bottom, plot.top) // prettier-ignore
  const parts = series.map(({ points: line, isDashed = false }, index) => {
    const colour = colourOf(index)
    const path = line.map(([px, py]) => `${fixed(across.at(px))},${fixed(up.at(py))}`).join(' ')
    const dashes = isDashed ? ' stroke-dasharray="6 4"' : ''
    const dots =
      isDashed || line.length > 40
        ? ''
        : line
            .map(([px, py, mark]) =>
              dot(across.at(px), up.at(py), colour, index === series.length - 1 ? mark : undefined),
            )
            .join('')
    return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"${dashes}/>${dots}`
  })
  const xTicks = across.ticks.map((value) => tick(across.at(value), numberText(value)))
  return frame(title, note, [...grid(up), axisLabels(x.label, y.label), ...xTicks, ...parts, legend(series)])
}

export function barChart({ title, y, categories, series, note }: BarChart): string {
  const values = series.flatMap((each) => each.values).filter(Number.isFinite)
  const up = scaleOf(y, values, plot.bottom, plot.top)
  const slot = (plot.right - plot.left) / Math.max(1, categories.length)
  const bar = (slot * 0.8) / Math.max(1, series.length)
  const parts = series.flatMap(({ values: heights }, index) =>
    heights.map((value, at) => {
      if (!Number.isFinite(value)) return ''
      const left = plot.left + slot * (at + 0.1) + bar * index
      const top = up.at(value)
      const text = `<text x="${fixed(left + bar / 2)}" y="${fixed(top - 5)}" text-anchor="middle" class="note">${numberText(value)}</text>`
      return `<rect x="${fixed(left)}" y="${fixed(top)}" width="${fixed(bar * 0.94)}" height="${fixed(plot.bottom - top)}" fill="${colourOf(index)}"/>${text}`
    }),
  )
  const names = categories.map((name, at) => tick(plot.left + slot * (at + 0.5), name))
  return frame(title, note, [...grid(up), axisLabels('', y.label), ...names, ...parts, legend(series)])
}

function dot(x: number, y: number, colour: string, mark: string | undefined): string {
  const circle = `<circle cx="${fixed(x)}" cy="${fixed(y)}" r="3" fill="${colour}"/>`
  if (mark === undefined) return circle
  return `${circle}<text x="${fixed(x)}" y="${fixed(y - 8)}" text-anchor="middle" class="note">${escapeText(mark)}</text>`
}

type Scale = { readonly ticks: readonly number[]; at(value: number): number }

function scaleOf(axis: ChartAxis, values: readonly number[], from: number, to: number): Scale {
  const { isLogarithmic = false } = axis
  const smallest = Math.min(...values)
  const largest = Math.max(...values)
  if (isLogarithmic) {
    const low = 10 ** Math.floor(Math.log10(axis.min ?? smallest))
    const high = Math.max(low * 10, 10 ** Math.ceil(Math.log10(axis.max ?? largest)))
    const ticks: number[] = []
    for (let value = low; value <= high * 1.001; value *= 10) ticks.push(value)
    const span = Math.log10(high / low)
    return { ticks, at: (value) => from + (Math.log10(Math.max(low, value) / low) / span) * (to - from) }
  }
  const low = axis.min ?? Math.min(0, smallest)
  const step = niceStep(((axis.max ?? largest) - low) / 6)
  const high = axis.max ?? low + Math.max(1, Math.ceil((largest - low) / step - 1e-9)) * step
  const ticks: number[] = []
  for (let value = low; value <= high + step / 1000; value += step) ticks.push(value)
  return { ticks, at: (value) => from + ((value - low) / (high - low)) * (to - from) }
}

/** 1, 2 or 5 times a power of ten. */
function niceStep(rough: number): number {
  if (!(rough > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(rough))
  return ([1, 2, 5].find((each) => each * power >= rough) ?? 10) * power
}

const colourOf = (index: number): string => colours[index % colours.length] as string
const fixed = (value: number): string => String(Math.round(value * 10) / 10)

function numberText(value: number): string {
  const size = Math.abs(value)
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`
  return String(Number(value.toPrecision(3)))
}

const grid = (up: Scale): string[] =>
  up.ticks.map((value) => {
    const at = fixed(up.at(value))
    const label = `<text x="${plot.left - 8}" y="${at}" dy="4" text-anchor="end">${numberText(value)}</text>`
    return `<line x1="${plot.left}" y1="${at}" x2="${plot.right}" y2="${at}" class="grid"/>${label}`
  })

const tick = (at: number, text: string): string =>
  `<text x="${fixed(at)}" y="${plot.bottom + 20}" text-anchor="middle">${escapeText(text)}</text>`

const axisLabels = (x: string, y: string): string =>
  `<line x1="${plot.left}" y1="${plot.bottom}" x2="${plot.right}" y2="${plot.bottom}" class="axis"/>` +
  `<text x="${(plot.left + plot.right) / 2}" y="${plot.bottom + 42}" text-anchor="middle">${escapeText(x)}</text>` +
  `<text x="18" y="${(plot.top + plot.bottom) / 2}" text-anchor="middle" transform="rotate(-90 18 ${(plot.top + plot.bottom) / 2})">${escapeText(y)}</text>`

function legend(series: readonly { readonly name: string; readonly isDashed?: boolean }[]): string {
  let left = plot.left
  return series
    .map(({ name, isDashed = false }, index) => {
      const at = left
      left += 44 + name.length * 7.4
      const dashes = isDashed ? ' stroke-dasharray="6 4"' : ''
      const line = `<line x1="${fixed(at)}" y1="52" x2="${fixed(at + 20)}" y2="52" stroke="${colourOf(index)}" stroke-width="3"${dashes}/>`
      return `${line}<text x="${fixed(at + 26)}" y="56">${escapeText(name)}</text>`
    })
    .join('')
}

function frame(title: string, note: string | undefined, parts: readonly string[]): string {
  const head =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeText(title)}">` +
    `<style>${style}</style><rect width="${width}" height="${height}" class="back"/>` +
    `<text x="${plot.left}" y="28" class="title">${escapeText(title)}</text>`
  const foot =
    note === undefined ? '' : `<text x="${plot.left}" y="${height - 10}" class="note">${escapeText(note)}</text>`
  return `${[head, ...parts, foot].filter((part) => part !== '').join('\n')}\n</svg>\n`
}
