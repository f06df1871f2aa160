// The order in which C++'s unordered_map (libstdc++) lists its keys. Triton lists names in this order in some of its
// error texts.

const mask = 2n ** 64n - 1n
const multiplier = 0xc6a4a7935bd1e995n
const seed = 0xc70f6907n
/** How many buckets the map has, one step after the other as it grows. */
const bucketCounts = [13n, 29n, 59n, 127n, 257n, 541n, 1109n, 2357n, 5087n, 10273n]

const mixed = (value: bigint): bigint => value ^ (value >> 47n)
const times = (value: bigint): bigint => (value * multiplier) & mask

/** MurmurHash64A of the UTF-8 text, as std::hash<std::string>. */
function hashOf(text: string): bigint {
  const bytes = Buffer.from(text)
  const tail = bytes.length % 8
  let hash = seed ^ times(BigInt(bytes.length))
  for (let at = 0; at < bytes.length - tail; at += 8) {
    hash = times(hash ^ times(mixed(times(bytes.readBigUInt64LE(at)))))
  }
  if (tail > 0) {
    const last = Buffer.alloc(8)
    bytes.copy(last, 0, bytes.length - tail)
    hash = times(hash ^ last.readBigUInt64LE())
  }
  return mixed(times(mixed(hash)))
}

/** `keys` in the order in which they were put in, each of them once. */
export function unorderedMapOrder(keys: readonly string[]): string[] {
  let order: string[] = []
  let put = 0
  for (const count of bucketCounts) {
    // A map that grows puts its keys into the new buckets in the order of the old ones.
    const next = keys.slice(put, Number(count))
    order = listed([...order, ...next], count)
    put += next.length
    if (put === keys.length) return order
  }
  return [...keys.slice(put).toReversed(), ...order]
}

/** A new key stands first in its bucket, and a new bucket before all others. */
function listed(keys: readonly string[], count: bigint): string[] {
  const buckets = new Map<bigint, string[]>()
  for (const key of keys) {
    const bucket = hashOf(key) % count
    buckets.set(bucket, [key, ...(buckets.get(bucket) ?? [])])
  }
  return [...buckets.values()].toReversed().flat()
}
