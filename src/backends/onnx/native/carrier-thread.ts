// A thread that makes one blocking call of the C API after the other: runs, and creation and release of sessions. The
// thread owns no memory. The main thread owns all addresses, and keeps their memory until the thread reports the end of
// the call. The thread waits in Atomics.wait, so it has no event loop.

import type { Koffi } from '../../../base/koffi.ts'
import type { CarrierControl } from './carrier-control.ts'

export type CarrierSetting = CarrierControl & {
  /** The file that `require` gives koffi for. */
  readonly koffiPath: string
  /** The addresses of the only three functions that a carrier calls. */
  readonly addresses: { readonly run: bigint; readonly createSession: bigint; readonly releaseSession: bigint }
}

/**
 * The thread's whole program. The thread gets it as text, so the function may use no name from outside. A thread that
 * loads modules from TypeScript sources takes 24 MB instead of 12 (a second type stripper).
 */
function carryCalls(): void {
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads')
  const { ticket, slots, koffiPath, addresses } = workerData as CarrierSetting
  const koffi = process.getBuiltinModule('node:module').createRequire(koffiPath)(koffiPath) as Koffi
  // koffi sets up the stack for its calls when a thread loads its first library. Without this the first call crashes.
  koffi.load(null)
  const bind = (address: bigint, result: string, parameters: string[]): ((...values: number[]) => number) =>
    koffi.decode(address, koffi.proto(result, parameters)) as (...values: number[]) => number
  const at = 'uintptr_t'
  const run = bind(addresses.run, at, [at, at, at, at, 'uint32_t', at, 'uint32_t', at])
  const createSession = bind(addresses.createSession, at, [at, at, at, at])
  const releaseSession = bind(addresses.releaseSession, 'void', [at])
  let pinned = 0
  let all: BigUint64Array | null = null
  // Only for models with a host policy.
  const pin = (mask: number): void => {
    const types = ['int', 'size_t', at]
    if (all === null) {
      all = new BigUint64Array(new ArrayBuffer(128))
      koffi.load(null).func('sched_getaffinity', 'int', types)(0, 128, Number(koffi.address(all)))
    }
    koffi.load(null).func('sched_setaffinity', 'int', types)(0, 128, mask === 0 ? Number(koffi.address(all)) : mask)
    pinned = mask
  }
  for (let seen = 0; ;) {
    Atomics.wait(ticket, 0, seen)
    seen = Atomics.load(ticket, 0)
    const [call = 0, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = slots
    const mask = slots[11] ?? 0
    if (mask !== pinned) pin(mask)
    const started = performance.now()
    let status = 0
    if (call === 1) status = run(a, b, c, d, e, f, g, h)
    else if (call === 2) status = createSession(a, b, c, d)
    else if (call === 3) releaseSession(a)
    else if (call === 5) status = bind(BigInt(a), at, [at, at])(b, c)
    else if (call !== 4) return
    slots[10] = (performance.now() - started) * 1e6
    slots[9] = status
    parentPort?.postMessage(seen, [])
  }
}

export const carrierSource = (): string => `(${carryCalls.toString()})()`
