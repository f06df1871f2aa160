// Calls into C libraries. koffi has a package for each system, which is all that is needed: the package `koffi` itself adds
// warnings about old names, and has an install script. Only its types are used, so only development installs it.

import { createRequire } from 'node:module'

export type Koffi = typeof import('koffi')

/** The file that `require` gives koffi for, in any thread. Throws where koffi has no package for the system. */
export const koffiPath = (): string =>
  createRequire(import.meta.url).resolve(`@koromix/koffi-${process.platform}-${process.arch}`)

export const loadKoffi = (): Koffi => createRequire(import.meta.url)(koffiPath()) as Koffi

/** A list of cores as `sched_setaffinity` takes it: a bit for each. */
export function coreMask(cores: readonly number[]): BigUint64Array {
  const mask = new BigUint64Array(new ArrayBuffer(128))
  for (const core of cores) mask[core >> 6] = (mask[core >> 6] ?? 0n) | (1n << BigInt(core & 63))
  return mask
}
