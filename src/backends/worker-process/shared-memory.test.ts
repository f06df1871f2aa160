import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { ServerError } from '../../base/server-error.ts'
import { SharedMemory, sharedMemorySupport } from './shared-memory.ts'
import { TensorRegions } from './tensor-regions.ts'

const mebibyte = 1024 * 1024
const { libc } = sharedMemorySupport()

test('shared memory is there on Linux and says why elsewhere', () => {
  assert.equal(libc !== null, process.platform === 'linux')
  assert.equal(sharedMemorySupport().whyNot === '', libc !== null)
})

if (libc !== null) {
  test('what is written through the mapping is in the file, which has no name', () => {
    const memory = SharedMemory.create(libc, mebibyte)
    memory.cover(10).set([1, 2, 3], 5)
    const seen = Buffer.alloc(8)
    fs.readSync(memory.fd, seen, 0, 8, 0)
    assert.deepEqual([...seen], [0, 0, 0, 0, 0, 1, 2, 3])
    assert.match(fs.readlinkSync(`/proc/self/fd/${memory.fd}`), /^\/memfd:/)
    memory.close()
    memory.close()
  })

  test('it grows, views of the smaller mapping stay valid, and it cannot be made smaller', () => {
    const memory = SharedMemory.create(libc, mebibyte)
    const old = memory.cover(mebibyte)
    old[0] = 42
    memory.grow(4 * mebibyte)
    const wide = memory.cover(4 * mebibyte)
    wide[1] = 43
    assert.deepEqual([old[0], old[1], wide[0]], [42, 43, 42])
    assert.throws(() => fs.ftruncateSync(memory.fd, 10), /EPERM/)
    assert.throws(() => memory.cover(5 * mebibyte), /lies outside/)
    memory.close()
    assert.equal(old[0], 42)
  })

  test('punched pages read as zeros and are given back to the system', () => {
    const memory = SharedMemory.create(libc, 4 * mebibyte)
    const bytes = memory.cover(4 * mebibyte).fill(7)
    const blocks = (): number => fs.fstatSync(memory.fd).blocks
    const full = blocks()
    memory.punch(mebibyte, 3 * mebibyte)
    assert.deepEqual([bytes[0], bytes[2 * mebibyte]], [7, 0])
    assert.ok(blocks() < full)
    memory.close()
  })

  test('the input region grows with use up to its limit, and refuses with the setting that moves it', () => {
    const regions = TensorRegions.create({
      initialBytes: mebibyte,
      maxBytes: 3 * mebibyte,
      inlineBytes: 0,
      maxBytesFlag: '--backend-config=python,shm-max-byte-size',
    })
    assert.ok(regions !== null)
    const block = new Uint8Array(700 * 1024).fill(9)
    const offsets = [1, 2, 3, 4].map(() => regions.storeInput(block))
    assert.equal(new Set(offsets).size, 4)
    assert.throws(
      () => regions.storeInput(block),
      (error) => error instanceof ServerError && /shm-max-byte-size/.test(error.message),
    )
    for (const offset of offsets) assert.equal(regions.freeInput(offset), true)
    assert.equal(regions.inputBytes, 0)
    assert.equal(regions.canTrimInputs, true)
    regions.trimInputs()
    assert.ok(fs.fstatSync(regions.inputs.fd).blocks * 512 <= mebibyte)
    regions.close()
  })
}
