// Threads of this process that yield to the others: they get less of a busy core, give it up when another thread wakes up, and take it from
// nobody when they wake up themselves. The main thread, which serves everybody, is the one that waits least. On Linux.

import { readdir, readFile } from 'node:fs/promises'
import { getPriority, setPriority } from 'node:os'
import { loadKoffi } from './koffi.ts'

const nicest = 19
/** A thread of SCHED_BATCH that wakes up waits until the one that has the core sleeps or has used its slice. */
const batchPolicy = 3
/** The longest slice: of two threads the scheduler takes the one with the shorter slice, and it takes the core from a thread whose slice is longer. */
const sliceNs = 100_000_000n

/** The number of `sched_setattr`, for which most versions of glibc have no function. */
const setAttributesCalls: Readonly<Record<string, number>> = { x64: 314, arm64: 274 }

type SystemCall = (call: number, thread: number, attributes: Buffer, flags: number) => number

/**
 * All threads of this name, as the kernel has it; threads that they start later inherit from them. `niceBy` is added to what a thread has: with 10 it
 * gets a tenth of a core of which another thread wants all, with 5 a quarter, with 0 half. What the system does not allow is left out: the threads then run as before.
 */
export async function lowerThreads(name: string, niceBy: number): Promise<void> {
  if (process.platform !== 'linux') return
  const systemCall = openSystemCall()
  for (const thread of await readdir('/proc/self/task').catch(() => [])) {
    try {
      const text = await readFile(`/proc/self/task/${thread}/comm`, 'latin1')
      if (text.trimEnd() === name) change(Number(thread), niceBy, systemCall)
    } catch {
      // The thread is gone, or may not be changed.
    }
  }
}

function change(thread: number, niceBy: number, systemCall: SystemCall | null): void {
  const nice = Math.min(nicest, getPriority(thread) + niceBy)
  const call = setAttributesCalls[process.arch]
  if (systemCall !== null && call !== undefined && systemCall(call, thread, attributesOf(nice), 0) === 0) return
  setPriority(thread, nice)
}

/** `struct sched_attr`: its size, SCHED_BATCH, no flags, the nice value, no real-time priority, the slice. Linux before 6.12 ignores the slice. */
function attributesOf(nice: number): Buffer {
  const attributes = Buffer.alloc(48)
  attributes.writeUInt32LE(attributes.length, 0)
  attributes.writeUInt32LE(batchPolicy, 4)
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
