// For messages that can say "did you mean …?".

/**
 * The word of `known` that `word` was most likely meant to be, or null when none is close: at most one letter in three
 * inserted, dropped, replaced or swapped with its neighbour. A word that was cut short is meant to be the shortest that begins with it.
 */
export function nearestWord(word: string, known: Iterable<string>): string | null {
  const words = [...known]
  let best: string | null = null
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of words) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue
    const distance = editDistance(word, candidate)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best ?? (word.length < leastBeginning ? null : shortestFrom(word, words))
}

/** Fewer letters than these begin too many words. */
const leastBeginning = 4

function shortestFrom(beginning: string, known: readonly string[]): string | null {
  let best: string | null = null
  for (const candidate of known) {
    if (candidate.startsWith(beginning) && (best === null || candidate.length < best.length)) best = candidate
  }
  return best
}

/** How many letters must be inserted, dropped, replaced or swapped with their neighbour to turn `a` into `b`. */
export function editDistance(a: string, b: string): number {
  const width = b.length + 1
  let beforeLast = new Uint32Array(width)
  let last = Uint32Array.from({ length: width }, (_, j) => j)
  let row = new Uint32Array(width)
  for (let i = 1; i <= a.length; i++) {
    row[0] = i
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      let cost = Math.min(replaced, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1)
      }
      row[j] = cost
    }
    const spare = beforeLast
    beforeLast = last
    last = row
    row = spare
  }
  return last[b.length] ?? 0
}
