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
    // A client waits behind the one line that runs.
    [{ ...used, pendingCount: 2, inFlightCount: 3 }, 1, 100, 0],
  ]
  for (const [load, own, below, room] of rows) assert.equal(lineRoom(load, own, below), room, JSON.stringify([load, own, below])) // prettier-ignore
})

test('a model that is away gets one line, to find out when it is back', () => {
  assert.deepEqual([lineRoom(null, 0, 0.6), lineRoom(null, 1, 0.6)], [1, 0])
})
