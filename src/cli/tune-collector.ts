import { setFlagsFromString } from 'node:v8'

/**
 * V8 puts objects of kinds that survived some collections straight into the old space from then on. A busy start is enough to
 * mislead it about what every request makes, and those dead old objects then keep young ones alive: each young collection
 * copied a fifth of all that was made, 10 ms at a time (bench/suite: p99 of 64 gRPC calls at once to `simple` 11 ms, 2 with this).
 */
export function keepRequestsYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * By itself V8 begins to collect its whole heap after some tens of megabytes of new buffers, which here is with nearly
 * every tensor of 16 MiB, and that took almost half of the CPU of such a request (bench/large-tensor.bench.ts: 26 ms
 * before, 19 with this). Counted together with the heap they may double first.
 */
export function tuneCollector(): void {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  setFlagsFromString('--external-memory-max-growing-factor=2')
}
