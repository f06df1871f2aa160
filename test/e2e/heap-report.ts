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
    // What V8 has compiled, of every tier, is a matter of how long and how often code ran, and bounded by the program's size.
    const code = v8
      .getHeapSpaceStatistics()
      .filter(({ space_name }) => /code|trusted/.test(space_name))
      .reduce((sum, { space_used_size }) => sum + space_used_size, 0)
    const held = used_heap_size + external_memory
    process.stderr.write(`\nheld after collection: ${held} bytes, of which code: ${code}\n`)
  })()
})
