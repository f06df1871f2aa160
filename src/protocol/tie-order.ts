// The order of equal scores in Triton's classes: that of std::sort of GCC's library, which does not keep equal elements in their
// order. Clients see it as the labels of equal scores. Up to 16 scores the order is that of the indices.

/** Ranges up to this length are left to the insertion sort at the end. */
export const shortRange = 16

type Scores = ArrayLike<number> | ArrayLike<bigint>

/** All indices, larger scores first. No score may be NaN. */
export function orderWithTies(scores: Scores): Uint32Array {
  const order = new Uint32Array(scores.length)
  for (let i = 0; i < order.length; i++) order[i] = i
  partitionDown(scores, order)
  insertAll(scores, order)
  return order
}

/** Whether the score at place a of the order comes before the one at place b. */
const precedes = (scores: Scores, order: Uint32Array, a: number, b: number): boolean =>
  scores[order[a]!]! > scores[order[b]!]!

function swap(order: Uint32Array, a: number, b: number): void {
  const index = order[a]!
  order[a] = order[b]!
  order[b] = index
}

function partitionDown(scores: Scores, order: Uint32Array): void {
  const depth = 2 * Math.floor(Math.log2(Math.max(1, order.length)))
  const ranges = [{ first: 0, last: order.length, depth }]
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const { first, last } = range
    if (last - first <= shortRange) continue
    // Only scores that were chosen to make the sort slow come here. GCC's library goes on with a heap, whose order of equal scores is not
    // followed.
    if (range.depth === 0) {
      order.subarray(first, last).sort((a, b) => (scores[a]! > scores[b]! ? -1 : scores[a]! < scores[b]! ? 1 : a - b))
      continue
    }
    medianToFirst(scores, order, first, last)
    const cut = partition(scores, order, first, last)
    ranges.push({ first, last: cut, depth: range.depth - 1 }, { first: cut, last, depth: range.depth - 1 })
  }
}

/** The median of the second, the middle and the last element becomes the first one. */
function medianToFirst(scores: Scores, order: Uint32Array, first: number, last: number): void {
  const a = first + 1
  const b = first + ((last - first) >> 1)
  const c = last - 1
  const [low, high] = precedes(scores, order, a, b) ? [a, b] : [b, a]
  if (precedes(scores, order, high, c)) return swap(order, first, high)
  // Of equal ones the library takes the first for which a comparison is false.
  swap(order, first, precedes(scores, order, low, c) ? c : low)
}

function partition(scores: Scores, order: Uint32Array, first: number, last: number): number {
  let left = first + 1
  let right = last
  for (;;) {
    while (precedes(scores, order, left, first)) left++
    right--
    while (precedes(scores, order, first, right)) right--
    if (left >= right) return left
    swap(order, left, right)
    left++
  }
}

function insertAll(scores: Scores, order: Uint32Array): void {
  for (let i = 1; i < order.length; i++) {
    const index = order[i]!
    let place = i
    while (place > 0 && scores[index]! > scores[order[place - 1]!]!) {
      order[place] = order[place - 1]!
      place--
    }
    order[place] = index
  }
}
