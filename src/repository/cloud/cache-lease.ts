// A server's own corner of a cache folder that several may share: a folder that exists while the server does. What a
// server that crashed left behind is found by its lease and taken away by the next one.

import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'
import { isRunning } from '../../base/is-running.ts'

type LeaseFacts = { readonly host: string; readonly pid: number }

const heartbeatMs = 30_000
/** Without a sign of life for so long a lease of another machine counts as left behind. */
const staleMs = 24 * 3600_000
const factsFile = 'lease.json'

export class CacheLease {
  readonly id: string
  /** The folder that belongs to this server alone. */
  readonly directory: string
  readonly #leases: string
  readonly #heartbeat: NodeJS.Timeout

  private constructor(leases: string, id: string) {
    this.id = id
    this.#leases = leases
    this.directory = path.join(leases, id)
    const facts = path.join(this.directory, factsFile)
    this.#heartbeat = setInterval(() => void utimes(facts, new Date(), new Date()).catch(() => undefined), heartbeatMs)
    this.#heartbeat.unref()
  }

  static async take(leases: string): Promise<CacheLease> {
    const id = randomBytes(8).toString('hex')
    await mkdir(path.join(leases, id), { recursive: true })
    const facts: LeaseFacts = { host: hostname(), pid: process.pid }
    await writeFile(path.join(leases, id, factsFile), JSON.stringify(facts))
    const lease = new CacheLease(leases, id)
    await lease.#sweep()
    return lease
  }

  /** Whether another server that still runs holds it. */
  async isAlive(id: string): Promise<boolean> {
    if (id === this.id) return true
    const file = path.join(this.#leases, id, factsFile)
    try {
      const { host, pid } = JSON.parse(await readFile(file, 'utf8')) as LeaseFacts
      const { mtimeMs } = await stat(file)
      if (Date.now() - mtimeMs > staleMs) return false
      // A process number says something on its own machine only. Mine, under another lease: I was restarted in a container.
      return host !== hostname() || (pid !== process.pid && isRunning(pid))
    } catch {
      // Being made at this moment, or half gone.
      const made = await stat(path.join(this.#leases, id)).catch(() => null)
      return made !== null && Date.now() - made.mtimeMs < heartbeatMs
    }
  }

  async #sweep(): Promise<void> {
    for (const id of await readdir(this.#leases)) {
      if (!(await this.isAlive(id))) await rm(path.join(this.#leases, id), { recursive: true, force: true })
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeat)
    await rm(this.directory, { recursive: true, force: true })
  }
}
