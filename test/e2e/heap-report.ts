// Loaded into a server under test before its own code, with --expose-gc: on SIGWINCH it says what it holds on to.

import v8 from 'node:v8'

process.on('SIGWINCH', () => {
  void (async () => {
    // Finalisers run between two collections, and free what they stood for.
    for (let round = 0; round < 3; round++) {
      globalThis.gc?.()
      await new Promise((resolve) => setImmediate(resolve))
    }
    const { used_heap_size, external_memory } = v8.getHeapStatistics()
    process.stderr.write(`\nheld after collection: ${used_heap_size + external_memory} bytes\n`)
  })()
})
