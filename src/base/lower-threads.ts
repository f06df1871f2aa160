// Threads of this process that yield to the others: they get less of a busy core, and give it up as soon as another thread wakes up. The main
// thread, which serves everybody, is the one that waits least. On Linux.

import { readdir, readFile } from 'node:fs/promises'
import { getPriority, setPriority } from 'node:os'
import { loadKoffi } from './koffi.ts'

const nicest = 19
/**
 * The scheduler lets a thread run for its slice, 3 ms by default, before one that wakes up gets the core, and of two threads it takes the one whose
 * slice ends first. This is the shortest slice.
 */
const sliceNs = 100_000n

/** The number of `sched_setattr`, for which most versions of glibc have no function. */
const setAttributesCalls: Readonly<Record<string, number>> = { x64: 314, arm64: 274 }

type SystemCall = (call: number, thread: number, attributes: Buffer, flags: number) => number

/**
 * All threads of this name, as the kernel has it; threads that they start later inherit from them. `niceBy` is added to what a thread has: with 10 it
 * gets a tenth of a core of which another thread wants all, with 5 a quarter. What the system does not allow is left out: the threads then run as before.
 */
export async function lowerThreads(name: string, niceBy: number): Promise<void> {
  if (process.platform !== 'linux') return
  const systemCall = openSystemCall()
  for (const thread of await readdir('/proc/self/task')) {
    try {
      const text = await readFile(`/proc/self/task/${thread}/comm`, 'latin1')
      if (text.trimEnd() === name) change(Number(thread), niceBy, systemCall)
    } catch {
      // The thread is gone, or may not be changed.
    }
  }
}

/** Threads of this process that wake up do not take the core from the main thread. Its share of a busy core stays the same. */
export function shortenMainSlice(): void {
  if (process.platform === 'linux') change(process.pid, 0, openSystemCall())
}

function change(thread: number, niceBy: number, systemCall: SystemCall | null): void {
  const nice = Math.min(nicest, getPriority(thread) + niceBy)
  const call = setAttributesCalls[process.arch]
  if (systemCall !== null && call !== undefined && systemCall(call, thread, attributesOf(nice), 0) === 0) return
  if (niceBy > 0) setPriority(thread, nice)
}

/** `struct sched_attr`: its size, SCHED_OTHER, no flags, the nice value, no real-time priority, the slice. Linux before 6.12 ignores the slice. */
function attributesOf(nice: number): Buffer {
  const attributes = Buffer.alloc(48)
  attributes.writeUInt32LE(attributes.length, 0)
  attributes.writeInt32LE(nice, 16)
  attributes.writeBigUInt64LE(sliceNs, 24)
  return attributes
}

function openSystemCall(): SystemCall | null {
  try {
    return loadKoffi().load(null).func('long syscall(long, long, void *, long)') as unknown as SystemCall
  } catch {
    return null
  }
}
