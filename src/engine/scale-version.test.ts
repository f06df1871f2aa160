import assert from 'node:assert/strict'
import { test } from 'node:test'
import { engineOnShelf, plainModelText, shelvedModel } from '../../test/fakes/engine-on-shelf.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import type { ServedVersion } from './serving/served-version.ts'

const bytes = (count: number): string => `parameters { key: "memory_bytes" value { string_value: "${count}" } }`
const most = 'parameters { key: "instances_max" value { string_value: "8" } }'

async function started(texts: Readonly<Record<string, string>>, options: { modelMemoryLimitBytes?: number } = {}) {
  const clock = new ManualClock()
  const served: ServedVersion[] = []
  const models = Object.entries(texts).map(([name, text]) => shelvedModel(name, plainModelText(name, text)))
  const { engine } = engineOnShelf(clock, models, options, { onServed: (version) => served.push(version) })
  await engine.start()
  const named = (name: string): ServedVersion => served.find((version) => version.name === name) as ServedVersion
  return { engine, clock, named }
}

test('a version gets more instances while it serves, and fewer again', async () => {
  const { engine, named } = await started({ m: most })
  await engine.scale(named('m'), 3)
  assert.deepEqual([named('m').workload.count, engine.findVersion('m', '').config.instanceGroup[0]?.count], [3, 3])
  await engine.scale(named('m'), 1)
  assert.equal(named('m').workload.count, 1)
  await engine.close(0)
})

test('an instance for which the memory limit has no room is not made, and no other model leaves for it', async () => {
  const { engine, named } = await started({ m: most + bytes(100), other: bytes(100) }, { modelMemoryLimitBytes: 350 })
  await engine.scale(named('m'), 2)
  await assert.rejects(engine.scale(named('m'), 4), /no room for model 'm'.*one instance more needs them/)
  assert.equal(named('m').workload.count, 2)
  assert.deepEqual([...engine.residences()].map(({ memoryBytes }) => memoryBytes), [200, 100]) // prettier-ignore
  await engine.close(0)
})

test('models that nobody asked for a while leave the memory when that is wanted; those to be kept warm stay', async () => {
  const warm = 'parameters { key: "keep_warm" value { string_value: "true" } }'
  const { engine, clock } = await started({ cold: '', warm })
  assert.deepEqual(await engine.sleepIdle(60e9), [])
  clock.advanceNs(60e9)
  assert.deepEqual(await engine.sleepIdle(60e9), ['cold'])
  assert.equal(engine.servedModel('cold')?.state.kind, 'SLEEPING')
  assert.equal(engine.isModelReady('cold', ''), true, 'the next request loads it')
  await engine.close(0)
})
