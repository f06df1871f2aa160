import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PlacedSet } from './placed-set.ts'

test('a set holds whom it was given and has not let go, in whatever order they come and leave', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 20 }), { maxLength: 200 }), (numbers) => {
      const members = Array.from({ length: 21 }, (_, number) => ({ number, place: -1 }))
      const set = new PlacedSet<(typeof members)[number]>()
      const expected = new Set<number>()
      for (const number of numbers) {
        const member = members[number]
        assert.ok(member !== undefined)
        if (expected.delete(number)) assert.equal(set.delete(member), true)
        else {
          assert.equal(set.delete(member), false)
          set.add(member)
          expected.add(number)
        }
        assert.deepEqual(new Set(set.members().map((each) => each.number)), expected)
        assert.equal(set.size, expected.size)
      }
    }),
  )
})
