import assert from 'node:assert/strict'
import { test } from 'node:test'

import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { silentLog } from '../base/log.ts'
import { UnreadAnswers } from './unread-answers.ts'

class FakeSocket {
  writableLength: number
  bytesWritten: number
  isDestroyed = false
  constructor(unreadBytes: number) {
    this.writableLength = unreadBytes
    this.bytesWritten = unreadBytes
  }
  /** The client takes bytes; as many others may be written for it meanwhile. */
  take(bytes: number, written = 0): void {
    this.writableLength += written - bytes
    this.bytesWritten += written
  }
  destroy(): void {
    this.isDestroyed = true
  }
}

function watching(...sockets: FakeSocket[]): { clock: ManualClock; unread: UnreadAnswers } {
  const clock = new ManualClock()
  const unread = new UnreadAnswers({ clock, log: silentLog }, 1000, () => sockets)
  unread.start()
  return { clock, unread }
}

test('a client that takes no byte for the time-out is closed, not before', () => {
  const socket = new FakeSocket(100)
  const { clock } = watching(socket)
  clock.advanceMs(1000)
  assert.equal(socket.isDestroyed, false)
  clock.advanceMs(250)
  assert.equal(socket.isDestroyed, true)
})

test('a client that takes a page now and then is not, nor is one that has nothing to take', () => {
  const slow = new FakeSocket(1_000_000)
  const idle = new FakeSocket(0)
  const { clock } = watching(slow, idle)
  for (let i = 0; i < 20; i++) {
    clock.advanceMs(900)
    slow.take(4096)
  }
  assert.deepEqual([slow.isDestroyed, idle.isDestroyed], [false, false])
})

test('answers that are written meanwhile do not count as taken, and single bytes do not either', () => {
  const pipelining = new FakeSocket(100)
  const dripping = new FakeSocket(1_000_000)
  const { clock } = watching(pipelining, dripping)
  for (let i = 0; i < 25; i++) {
    clock.advanceMs(50)
    pipelining.take(0, 10_000)
    dripping.take(1)
  }
  assert.deepEqual([pipelining.isDestroyed, dripping.isDestroyed], [true, true])
})

test('nothing is looked at after stop', () => {
  const { clock, unread } = watching(new FakeSocket(1))
  unread.stop()
  assert.equal(clock.pendingCount, 0)
})
