/**
 * What makes room for something new, where the oldest come first in the list: of those that are over, the oldest one of the owner that
 * keeps the most. So nobody pushes out what others keep. Undefined: none is over.
 */
export function oldestToForget<T>(
  all: readonly T[],
  ownerOf: (one: T) => string,
  isOver: (one: T) => boolean,
): T | undefined {
  const counts = new Map<string, number>()
  for (const one of all) counts.set(ownerOf(one), (counts.get(ownerOf(one)) ?? 0) + 1)
  const countOf = (one: T): number => counts.get(ownerOf(one)) as number
  let chosen: T | undefined
  for (const one of all) {
    if (isOver(one) && (chosen === undefined || countOf(one) > countOf(chosen))) chosen = one
  }
  return chosen
}
