import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { compileFakeCuda } from '../../test/fakes/fake-cuda.ts'
import { until } from '../../test/until.ts'
import { Gpus } from './gpus.ts'

const found = compileFakeCuda()
const skip = typeof found === 'string' ? found : false
const driverLibrary = typeof found === 'string' ? '' : found.file

const kib = 1024

/** The first question for a size has it allocated. */
async function taken({ pinnedInputs }: Gpus, byteLength: number): Promise<Buffer> {
  let buffer = pinnedInputs.take(byteLength)
  await until(() => (buffer ??= pinnedInputs.take(byteLength)) !== null, 'pinned memory')
  return buffer as Buffer
}

test(
  'pinned memory that nobody gave back is free again once nobody can reach it, without being allocated anew',
  { skip },
  async (t) => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const gpus = new Gpus({ count: 1, pinnedBytes: 128 * kib, driverLibrary })
    t.after(() => gpus.close())
    let lost: Buffer | null = await taken(gpus, 128 * kib)
    lost.fill(7)
    assert.equal(gpus.pinnedInputs.take(128 * kib), null)
    lost = null
    let again: Buffer | null = null
    await until(() => {
      collect()
      return (again ??= gpus.pinnedInputs.take(128 * kib)) !== null
    }, 'the lost memory')
    // The budget has room for one: what comes is the same memory.
    assert.equal((again as unknown as Buffer)[100], 7)
    assert.equal(gpus.pinned.usedBytes, 128 * kib)
  },
)

test('free memory of another size makes room', { skip }, async (t) => {
  const gpus = new Gpus({ count: 1, pinnedBytes: 256 * kib, driverLibrary })
  t.after(() => gpus.close())
  gpus.pinnedInputs.give(await taken(gpus, 256 * kib))
  const smaller = await taken(gpus, 128 * kib)
  assert.equal(smaller.length, 128 * kib)
  assert.equal(gpus.pinned.usedBytes, 128 * kib)
  assert.equal(gpus.pinnedInputs.giveBack(smaller.buffer), true)
  assert.equal(gpus.pinnedInputs.giveBack(Buffer.alloc(8).buffer), false)
})
