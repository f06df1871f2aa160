import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lineRoom, type ModelLoad } from './line-room.ts'

const idle: ModelLoad = { pendingCount: 0, inFlightCount: 0, instanceCount: 4, batchSize: 1, pressure: 0, hasClients: false } // prettier-ignore

test('a job takes everything while nobody else uses the model, whatever its own lines make of the pressure', () => {
  assert.equal(lineRoom(idle, 0, 0.6), Infinity)
  assert.equal(lineRoom({ ...idle, inFlightCount: 4, pressure: 1.5 }, 4, 0.6), Infinity)
})

test('while clients use the model, lines leave an instance free and stay below the pressure that was asked for', () => {
  const used: ModelLoad = { ...idle, hasClients: true, pressure: 0.4 }
  const rows: [load: ModelLoad, own: number, below: number, room: number][] = [
    [used, 0, 0.6, 3],
    [{ ...used, inFlightCount: 3 }, 2, 0.6, 0],
    [{ ...used, inFlightCount: 2 }, 0, 0.6, 1],
    [{ ...used, instanceCount: 8 }, 0, 0.6, 5],
    [{ ...used, instanceCount: 2 }, 0, 0.6, 1],
    [{ ...used, instanceCount: 1 }, 0, 0.6, 1],
    [{ ...used, instanceCount: 1, inFlightCount: 1 }, 0, 0.6, 0],
    [{ ...used, instanceCount: 2, batchSize: 8 }, 0, 0.6, 8],
    [{ ...used, pressure: 0.6 }, 0, 0.6, 0],
    [{ ...used, pressure: null }, 0, 0.6, 3],
    [used, 0, 1, 4],
    [used, 0, 0.9, 3],
    // Few clients: p99 alone is the time of one execution, and half of the instances stay free to keep it there.
    [{ ...used, pressure: 0.2 }, 0, 0.6, 2],
    [{ ...used, pressure: 0.2, instanceCount: 1 }, 0, 0.6, 1],
    // A client waits behind the one line that runs.
    [{ ...used, pendingCount: 2, inFlightCount: 3 }, 1, 100, 0],
  ]
  for (const [load, own, below, room] of rows) assert.equal(lineRoom(load, own, below), room, JSON.stringify([load, own, below])) // prettier-ignore
})

test('a model that is away gets one line, to find out when it is back', () => {
  assert.deepEqual([lineRoom(null, 0, 0.6), lineRoom(null, 1, 0.6)], [1, 0])
})

/** In virtual time: requests come by chance, and lines fill the room that there is. `p99` is of clients, in units of one execution. */
function besideJob(instanceCount: number, utilization: number, hasJob: boolean): { p99: number; usedShare: number } {
  let seed = 7
  const chance = (): number => ((seed = (seed * 1664525 + 1013904223) % 4294967296) + 0.5) / 4294967296
  const gap = (): number => -Math.log(chance()) / (utilization * instanceCount)
  const running: { end: number; isLine: boolean }[] = []
  const waiting: number[] = []
  const times: number[] = []
  let [now, next, own, lines] = [0, gap(), 0, 0]
  const serve = (arrived: number): void => {
    running.push({ end: now + 1, isLine: false })
    times.push(now + 1 - arrived)
  }
  while (times.length < 20_000) {
    const ended = running.toSorted((a, b) => a.end - b.end)[0]
    now = Math.min(next, ended?.end ?? Infinity)
    if (ended !== undefined && ended.end === now) {
      running.splice(running.indexOf(ended), 1)
      if (ended.isLine) [own, lines] = [own - 1, lines + 1]
      if (waiting.length > 0) serve(waiting.shift() ?? 0)
    } else {
      next = now + gap()
      if (running.length < instanceCount) serve(now)
      else waiting.push(now)
    }
    const load = { pendingCount: waiting.length, inFlightCount: running.length + waiting.length, instanceCount, batchSize: 1, pressure: utilization, hasClients: true } // prettier-ignore
    const begun = hasJob ? Math.min(lineRoom(load, own, 0.6), instanceCount - running.length) : 0
    for (let i = 0; i < begun; i++) running.push({ end: now + 1, isLine: true })
    own += begun
  }
  const p99 = times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? NaN
  return { p99, usedShare: lines / now / (instanceCount * (1 - utilization)) }
}

test('at 40 % of what a model can do, a job takes nearly half of the rest or more, and the p99 of clients is at most 1.2 times as long', () => {
  for (const instances of [1, 2, 4, 8]) {
    const beside = besideJob(instances, 0.4, true)
    const ratio = beside.p99 / besideJob(instances, 0.4, false).p99
    assert.ok(ratio > 1 && ratio <= 1.2, `${instances} instances: ${ratio.toFixed(2)}`)
    assert.ok(beside.usedShare > 0.45, `${instances} instances: ${beside.usedShare.toFixed(2)} of what is free`)
  }
})
