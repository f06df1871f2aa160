import { setFlagsFromString } from 'node:v8'

/**
 * By itself V8 begins to collect its whole heap after some tens of megabytes of new buffers, which here is with nearly
 * every tensor of 16 MiB, and that took almost half of the CPU of such a request (bench/large-tensor.bench.ts: 26 ms
 * before, 19 with this). Counted together with the heap they may double first.
 */
export function tuneCollector(): void {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  setFlagsFromString('--external-memory-max-growing-factor=2')
}
