/** The ids of the highest values, the highest first. */
export function likeliestTokens(values: Float32Array, count: number): number[] {
  const top: number[] = []
  if (count === 0) return top
  let least = -Infinity
  for (let id = 0; id < values.length; id++) {
    const value = values[id] as number
    if (top.length === count && value <= least) continue
    let [low, high] = [0, top.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((values[top[middle] as number] as number) >= value) low = middle + 1
      else high = middle
    }
    top.splice(low, 0, id)
    if (top.length > count) top.pop()
    least = values[top[top.length - 1] as number] as number
  }
  return top
}
