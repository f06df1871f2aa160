import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { OutputTensor } from '../output-tensor.ts'
import { createSharedMemoryRegion } from './shared-memory-region.ts'

test('tensors lie in /dev/shm as they go over the wire, each on a boundary of its own', async () => {
  await using region = await createSharedMemoryRegion({ byteSize: 256 })
  const first = await region.write(Int32Array.of(1, 2, 3))
  const second = await region.write(['ab', 'c'], { shape: [1, 2] })
  assert.deepEqual(first, {
    dataType: 'INT32',
    shape: [3],
    sharedMemory: { region: region.name, offset: 0, byteSize: 12 },
  })
  assert.deepEqual([second.dataType, second.sharedMemory.offset, second.sharedMemory.byteSize], ['BYTES', 64, 11])
  const bytes = readFileSync(`/dev/shm${region.key}`)
  assert.equal(bytes.length, 256)
  assert.deepEqual([...bytes.subarray(0, 12)], [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
  const output = new OutputTensor('Y', 'INT32', [3], new Uint8Array(0))
  assert.deepEqual((await region.read(output, first.sharedMemory)).numbers(), [1, 2, 3])
})

test('a region is the maker’s alone unless a mode says otherwise, and gone when closed, twice', async () => {
  const region = await createSharedMemoryRegion({ byteSize: 64 })
  const file = `/dev/shm${region.key}`
  assert.equal(statSync(file).mode & 0o777, 0o600)
  await assert.rejects(createSharedMemoryRegion({ byteSize: 64, name: region.name }), { code: 'ALREADY_EXISTS' })
  await region.close()
  await region.close()
  assert.equal(existsSync(file), false)
})

test('what does not fit, or is no name, is refused with what there is', async () => {
  await using region = await createSharedMemoryRegion({ byteSize: 64 })
  region.reserve(64)
  assert.throws(() => region.reserve(1), /has 64 bytes: no room for 1 at 64; reset\(\) frees all of it/)
  region.reset()
  assert.equal(region.reserve(64).offset, 0)
  assert.throws(() => region.reserve(8, -8), /no room/)
  for (const name of ['../etc', 'a/b', '..', '']) {
    await assert.rejects(createSharedMemoryRegion({ byteSize: 64, name }), { code: 'INVALID_ARG' })
  }
  await assert.rejects(createSharedMemoryRegion({ byteSize: 0 }), /needs a byteSize above 0, got 0/)
})
