import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { BlockAllocator, blockBytes } from './block-allocator.ts'

test('blocks never overlap, lie inside the region, and what comes back can be taken again as a whole', () => {
  const steps = fc.array(fc.record({ take: fc.boolean(), size: fc.integer({ min: 0, max: 5000 }) }), { maxLength: 200 })
  fc.assert(
    fc.property(steps, (plan) => {
      const blocks = new BlockAllocator()
      blocks.grow(16 * 1024)
      const used: { offset: number; size: number }[] = []
      for (const { take, size } of plan) {
        if (!take && used.length > 0) {
          const [block] = used.splice(size % used.length, 1)
          assert.equal(blocks.free(block?.offset ?? -1), true)
          continue
        }
        let offset = blocks.take(size)
        if (offset < 0) {
          blocks.grow(Math.max(blocks.capacity, blocks.capacityFor(size)))
          offset = blocks.take(size)
        }
        assert.ok(offset >= 0 && offset % blockBytes === 0 && offset + size <= blocks.capacity)
        for (const other of used) assert.ok(offset + size <= other.offset || other.offset + other.size <= offset)
        used.push({ offset, size: Math.max(size, 1) })
      }
      for (const { offset } of used) blocks.free(offset)
      assert.equal(blocks.isEmpty, true)
      assert.equal(blocks.usedBytes, 0)
      assert.equal(blocks.take(blocks.capacity), 0)
    }),
  )
})

test('an offset that is no block is not freed', () => {
  const blocks = new BlockAllocator()
  blocks.grow(1024)
  const offset = blocks.take(100)
  assert.equal(blocks.free(offset + 64), false)
  assert.equal(blocks.free(offset), true)
  assert.equal(blocks.free(offset), false)
})
