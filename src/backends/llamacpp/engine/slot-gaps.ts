/** One more token in a step costs less than one more pass over the weights. Of many it costs more. */
const widestGap = 2

/**
 * The slots between others that a step should compute a token of too, though nobody reads it. Where each sequence has a memory of its own, the library
 * computes only neighbours together, and reads all weights again for what is behind a gap. `used` are slots in their order.
 */
export function slotsInGaps(used: readonly number[]): number[] {
  return used.flatMap((slot, place) => {
    const before = used[place - 1] ?? slot
    const gap = slot - before - 1
    return gap > widestGap ? [] : Array.from({ length: Math.max(0, gap) }, (_, i) => before + 1 + i)
  })
}
