import { test } from 'node:test'
import { returnStartMemory } from './start-memory.ts'
import { until } from '../../test/until.ts'

/** The size of the heap while it holds what nobody holds any more when this returns. */
const heapBytesWithGarbage = (): number => {
  const garbage = Array.from({ length: 300_000 }, (_, index) => ({ index }))
  const { heapTotal } = process.memoryUsage()
  return garbage.length > 0 ? heapTotal : 0
}

test('what starting has left behind is given back once the process is idle', async () => {
  const heldBytes = heapBytesWithGarbage()
  returnStartMemory()
  // Nothing else here would make V8 shrink its heap: an idle process collects after minutes, if at all.
  const heapBytes = (): number => process.memoryUsage().heapTotal
  await until(() => heapBytes() <= heldBytes / 2, `half of ${heldBytes} bytes`, { seen: heapBytes })
})
