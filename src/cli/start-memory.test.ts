import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { returnStartMemory } from './start-memory.ts'

/** The size of the heap while it holds what nobody holds any more when this returns. */
const heapBytesWithGarbage = (): number => {
  const garbage = Array.from({ length: 300_000 }, (_, index) => ({ index }))
  const { heapTotal } = process.memoryUsage()
  return garbage.length > 0 ? heapTotal : 0
}

test('what starting has left behind is given back once the process is idle', { timeout: 60_000 }, async () => {
  const heldBytes = heapBytesWithGarbage()
  returnStartMemory()
  // Nothing else here would make V8 shrink its heap: an idle process collects after minutes, if at all.
  while (process.memoryUsage().heapTotal > heldBytes / 2) await pause(50)
})
