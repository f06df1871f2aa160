import { getHeapStatistics, setFlagsFromString } from 'node:v8'

/**
 * When objects of a kind survived some collections, V8 allocates this kind in the old space. After a busy start V8 does
 * so with objects of every request. Dead old objects keep young ones alive, and each young collection copied a fifth of
 * all objects, 10 ms at a time (bench/suite: p99 of 64 gRPC calls at once to `simple` 11 ms, 2 with this flag).
 */
export function keepRequestsYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * V8 by itself collects its whole heap twice when a process has become quiet. Then no request is alive, and V8 drops the code that it
 * compiled for objects of requests: up to 90 functions were compiled again afterwards. The server collects in quiet moments itself, with one
 * object of each kind alive (return-memory.ts).
 */
export function keepCodeInQuietMoments(): void {
  setFlagsFromString('--memory-reducer-gc-count=0')
}

/** So many bytes of garbage, objects and buffers together, may stand before V8 collects its whole heap. */
const garbageBytes = 40 * 1024 * 1024
const [leastFactor, mostFactor] = [1.15, 2]
/** V8's own choice for a large heap is above this. */
const leastHeapFactor = 1.5
const checkMs = 500
/** The least of so many samples counts: the others have garbage in them. */
const sampleCount = 8

/**
 * By default V8 collects its whole heap after some tens of megabytes of new buffers, here at nearly every tensor of 16 MiB. That
 * took almost half of the CPU of such a request (bench/large-tensor.bench.ts: 26 ms before, 19 with these flags). With the flags,
 * heap and buffers together may double before a collection. A server that holds much for its clients would keep as much garbage
 * beside it, so its factor is smaller.
 *
 * The heap by itself may double as well. By default V8 lets one of 20 MB grow by 8 MB: beside uploads of pictures the whole heap was marked every
 * 3 s, with pauses that were the slowest of a hundred small requests (bench/upload.bench.ts).
 */
export function tuneCollector(): void {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  const samples: number[] = []
  let factor = 0
  const adapt = (): void => {
    const { used_heap_size: heapBytes, external_memory: bufferBytes } = getHeapStatistics()
    if (samples.push(heapBytes + bufferBytes) > sampleCount) samples.shift()
    const wanted = growingFactor(Math.min(...samples))
    if (Math.abs(wanted - factor) < 0.1) return
    factor = wanted
    setFlagsFromString(`--external-memory-max-growing-factor=${factor.toFixed(2)}`)
    setFlagsFromString(`--heap-growing-percent=${heapGrowingPercent(factor)}`)
  }
  adapt()
  setInterval(adapt, checkMs).unref()
}

/** How far heap and buffers may grow before a collection, when a collection leaves `usedBytes`. */
export function growingFactor(usedBytes: number): number {
  return Math.min(Math.max(1 + garbageBytes / usedBytes, leastFactor), mostFactor)
}

/** Where the factor is small, V8 decides by itself how far the heap grows; 0 says that. */
export const heapGrowingPercent = (factor: number): number =>
  factor < leastHeapFactor ? 0 : Math.round((factor - 1) * 100)
