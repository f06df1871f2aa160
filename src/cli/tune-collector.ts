import { setFlagsFromString } from 'node:v8'

/**
 * When objects of a kind survived some collections, V8 allocates this kind in the old space. After a busy start V8 does
 * so with objects of every request. Dead old objects keep young ones alive, and each young collection copied a fifth of
 * all objects, 10 ms at a time (bench/suite: p99 of 64 gRPC calls at once to `simple` 11 ms, 2 with this flag).
 */
export function keepRequestsYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * Without this flag V8 collects its whole heap after some tens of megabytes of new buffers, here at nearly every tensor
 * of 16 MiB. That took almost half of the CPU of such a request (bench/large-tensor.bench.ts: 26 ms before, 19 with
 * this). With the flag, heap and buffers together may double before a collection.
 */
export function tuneCollector(): void {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  setFlagsFromString('--external-memory-max-growing-factor=2')
}
