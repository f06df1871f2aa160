// An alarm that wakes the event loop at a microsecond, while Node's timers count whole milliseconds. It is a timerfd: the
// kernel makes it readable at its time, and the loop sleeps until then like for any socket. Linux only.

import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { loadKoffi } from './koffi.ts'

export interface Alarm {
  /** Rings once, `delayNs` from now. It replaces the time that was set before. */
  set(delayNs: number): void
  /** Whether the process stays alive for the alarm. */
  keepAlive(isWanted: boolean): void
}

const monotonicClock = 1
const closeOnExec = 0o2000000
const nonBlocking = 0o4000
const unixDomain = 1
const streamType = 1
/** Thirty years: the seconds fit the lower half of their 64 bits. Who set the alarm looks at the clock when it rings. */
const thirtyYearsNs = 1e18

/** Null where there is no timerfd or where it cannot be called. */
export function openSystemAlarm(ring: () => void): Alarm | null {
  if (process.platform !== 'linux') return null
  try {
    return openTimer(ring)
  } catch {
    return null
  }
}

function openTimer(ring: () => void): Alarm | null {
  const koffi = loadKoffi()
  const libc = koffi.load(null)
  const pair = new Int32Array(2)
  const timer = libc.func('int timerfd_create(int, int)')(monotonicClock, closeOnExec | nonBlocking) as number
  if (timer < 0) return null
  const type = streamType | closeOnExec | nonBlocking
  if ((libc.func('int socketpair(int, int, int, int *)')(unixDomain, type, 0, pair) as number) !== 0) {
    closeSync(timer)
    return null
  }
  const [fd, other] = pair as unknown as [number, number]
  const onread = { buffer: Buffer.alloc(16), callback: () => (ring(), true) }
  const socket = new Socket({ fd, readable: true, writable: false, onread } as ConstructorParameters<typeof Socket>[0])
  // Node takes sockets and pipes only. It has looked at the descriptor now, and reads whatever stands behind the number.
  const isReplaced = (libc.func('int dup3(int, int, int)')(timer, fd, closeOnExec) as number) === fd
  closeSync(timer)
  closeSync(other)
  if (!isReplaced) {
    socket.destroy()
    return null
  }
  socket.on('error', () => undefined)
  socket.resume()
  socket.unref()
  // struct itimerspec: four numbers of 64 bits, of which the last two are the seconds and nanoseconds until the alarm.
  const words = new Int32Array(8)
  const address = Number(koffi.address(words))
  const setTime = libc.func('int timerfd_settime(int, int, uintptr_t, uintptr_t)') as (
    ...values: [number, number, number, number]
  ) => number
  return {
    set: (delayNs) => {
      const shortNs = Math.min(delayNs, thirtyYearsNs)
      const seconds = Math.floor(shortNs / 1e9)
      words[4] = seconds
      // Zero would switch the alarm off.
      words[6] = Math.max(1, shortNs - seconds * 1e9)
      setTime(fd, 0, address, 0)
    },
    keepAlive: (isWanted) => void (isWanted ? socket.ref() : socket.unref()),
  }
}
