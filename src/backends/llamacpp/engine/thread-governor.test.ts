import assert from 'node:assert/strict'
import test from 'node:test'
import { ThreadGovernor } from './thread-governor.ts'

/** A machine: threads beyond the free cores hold up all others. */
class Machine {
  freeCores: number
  nowMs = 0
  /** What the server itself needs of each core. */
  serverShare = 0

  constructor(cores: number) {
    this.freeCores = cores
  }

  /** The numbers of threads of the next steps. */
  run(governor: ThreadGovernor, steps: number, tokens = 1): number[] {
    return Array.from({ length: steps }, () => {
      const { threads } = governor
      const isCrowded = threads > this.freeCores
      const tookMs = ((40 * tokens) / threads) * (isCrowded ? 10 : 1)
      this.nowMs += tookMs
      const cpuMs = tookMs * Math.min(threads, this.freeCores) * (1 - this.serverShare)
      governor.stepped({ tokens, tookMs, nowMs: this.nowMs, cpuMs })
      return threads
    })
  }
}

test('all threads compute while the cores are free', () => {
  const governor = new ThreadGovernor(4)
  assert.deepEqual(new Set(new Machine(4).run(governor, 500)), new Set([4]))
})

test('all threads compute on beside a server that takes the cores for a moment with every token', () => {
  const machine = new Machine(2)
  machine.serverShare = 0.08
  assert.deepEqual(new Set(machine.run(new ThreadGovernor(2), 500)), new Set([2]))
})

test('where cores are crowded fewer threads compute, and all again when the cores are free', () => {
  const machine = new Machine(2)
  const governor = new ThreadGovernor(2)
  machine.run(governor, 10)
  machine.freeCores = 1
  const crowded = machine.run(governor, 1000)
  const slow = crowded.filter((threads) => threads === 2).length
  assert.ok(slow < 20, `${slow} of 1000 steps had two threads`)
  machine.freeCores = 2
  machine.run(governor, 2000)
  assert.deepEqual(new Set(machine.run(governor, 100)), new Set([2]))
})

test('many threads find the number of free cores', () => {
  const machine = new Machine(20)
  const governor = new ThreadGovernor(64)
  machine.run(governor, 400)
  const threads = machine.run(governor, 200)
  const settled = threads.filter((each) => each >= 14 && each <= 20).length
  assert.ok(settled > 180, `${settled} of 200 steps had 14 to 20 threads`)
})
