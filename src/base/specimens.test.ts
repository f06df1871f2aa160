import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Specimens } from './specimens.ts'

test('an object of each kind is there while the heap is collected, and no longer', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const specimens = new Specimens()
  const made: WeakRef<object>[] = []
  specimens.add(() => {
    const one = { kind: 'request' }
    made.push(new WeakRef(one))
    return one
  })
  // A WeakRef keeps its object until the turn ends, so the objects of the first collection are looked at in the second.
  let isThere = false
  specimens.during(() => {
    collect()
    isThere = made[0]?.deref() !== undefined
  })
  assert.ok(isThere)
  specimens.during(() => undefined)
  assert.equal(made.length, 2)
})
