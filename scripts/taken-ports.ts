// The ports of a server that is told none are taken while tests run. So a test that leaves a port to its default
// fails on every machine, and not only on one where another program has the port.

import { once } from 'node:events'
import { createServer } from 'node:net'

const defaultPorts = [8000, 8001, 8002]

export async function takeDefaultPorts(): Promise<void> {
  await Promise.all(
    defaultPorts.map(async (port) => {
      const taken = createServer((connection) => connection.destroy()).listen(port)
      taken.unref()
      // Another program has the port already: as good.
      await Promise.race([once(taken, 'listening'), once(taken, 'error')]).catch(() => null)
    }),
  )
}
