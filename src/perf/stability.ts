// Decides when a measurement is stable: three windows in a row that differ by no more than the allowed share.

export const stabilityWindows = 3

export type WindowFigures = { readonly inferPerSecond: number; readonly latencyUs: number }

/** `checksLatency` false: throughput alone decides. */
export function isStable(figures: readonly WindowFigures[], threshold: number, checksLatency: boolean): boolean {
  const last = figures.slice(-stabilityWindows)
  if (last.length < stabilityWindows || last.some((window) => window.inferPerSecond === 0)) return false
  const isSteady = (values: readonly number[]): boolean => Math.max(...values) / Math.min(...values) <= 1 + threshold
  return (
    isSteady(last.map((window) => window.inferPerSecond)) &&
    (!checksLatency || isSteady(last.map((window) => window.latencyUs)))
  )
}

/** True when one of the last three windows is over the threshold. 0: no threshold. */
export function isOverThreshold(figures: readonly WindowFigures[], thresholdMs: number): boolean {
  const last = figures.slice(-stabilityWindows)
  return (
    thresholdMs > 0 && last.length === stabilityWindows && last.some((window) => isOver(window.latencyUs, thresholdMs))
  )
}

/** In whole milliseconds, as perf_analyzer compares. */
export const isOver = (latencyUs: number, thresholdMs: number): boolean =>
  thresholdMs > 0 && Math.floor(latencyUs / 1000) >= thresholdMs
