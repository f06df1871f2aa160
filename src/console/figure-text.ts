// Numbers as people read them.

const dash = '–'

export function rateText(value: number | null | undefined): string {
  if (value === null || value === undefined) return dash
  if (value >= 1000) return Math.round(value).toLocaleString('en')
  if (value < 1) return String(Number(value.toPrecision(2)))
  return value >= 10 ? value.toFixed(0) : value.toFixed(1)
}

export function msText(value: number | null | undefined): string {
  if (value === null || value === undefined) return dash
  if (value === 0) return '0 ms'
  if (value >= 1000) return `${(value / 1000).toFixed(value >= 10_000 ? 0 : 1)} s`
  return `${value >= 10 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toFixed(2)} ms`
}

export function bytesText(value: number | null | undefined): string {
  if (value === null || value === undefined) return dash
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let left = value
  let unit = 0
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024
    unit++
  }
  return `${left >= 100 || unit === 0 ? left.toFixed(0) : left.toFixed(1)} ${units[unit] ?? ''}`
}

export const shareText = (value: number | null | undefined): string =>
  value === null || value === undefined ? dash : `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`

export const countText = (value: number | null | undefined): string =>
  value === null || value === undefined ? dash : value.toLocaleString('en')

export const timeText = (at: number | string): string => new Date(at).toLocaleTimeString('en-GB')

export const dateText = (at: number | string): string => new Date(at).toLocaleString('en-GB')

export function durationText(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86_400).toFixed(1)} days`
}
