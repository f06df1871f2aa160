// Decides which loads are measured, and in which order.

export type SearchRange = { readonly start: number; readonly end: number; readonly step: number }

/** True when the load is within the threshold and its figures are stable. */
type Measure = (load: number) => Promise<boolean>

/** Goes up from the start to the end, or to the first load that is too high. `end` 0: no end. */
export async function searchLinearly({ start, end, step }: SearchRange, measure: Measure): Promise<void> {
  for (let load = start; ; load += step) {
    const isGood = await measure(load)
    if (!isGood || (end !== 0 && load + step > end + 1e-9)) return
  }
}

/** Measures the start, then the end, then halves the range until it is not longer than a step. */
export async function searchByHalves({ start, end, step }: SearchRange, measure: Measure): Promise<void> {
  if (!(await measure(start)) || start === end) return
  if (await measure(end)) return
  let low = start
  let high = end
  const isWhole = [start, end, step].every(Number.isInteger)
  while (high - low > step) {
    const middle = isWhole ? Math.floor((low + high) / 2) : (low + high) / 2
    if (middle === low || middle === high) return
    if (await measure(middle)) low = middle
    else high = middle
  }
}
