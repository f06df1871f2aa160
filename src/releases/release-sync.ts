// Keeps the rollouts of this server in line with those of the other servers: once a second, and when somebody says that something
// has changed.

import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import type { ReleaseRun } from './release-json.ts'
import type { ReleaseRecord } from './release-record.ts'
import type { SharedRollouts } from './shared-rollouts.ts'

type SyncParts = {
  readonly clock: Clock
  readonly log: Log
  readonly shared: SharedRollouts
  /** Takes over what other servers have pinned. */
  pins(): Promise<void>
  readonly runs: () => ReadonlyMap<string, ReleaseRun>
  /** A rollout that another server has begun. Null: this server cannot take part, and says why. */
  join(record: ReleaseRecord): Promise<ReleaseRun | null>
  /** The store is there again. */
  back(): void
}

const exchangeNs = 1e9

export class ReleaseSync {
  readonly #parts: SyncParts
  #cancel: Cancel | null = null
  #isClosed = false
  #isAway = false
  #running: Promise<void> | null = null

  constructor(parts: SyncParts) {
    this.#parts = parts
  }

  start(): void {
    this.#later()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  /** Resolves after an exchange that began now or later. Never rejects. */
  async now(): Promise<void> {
    await this.#running
    this.#running ??= this.#exchange().finally(() => (this.#running = null))
    await this.#running
  }

  #later(): void {
    if (this.#isClosed) return
    this.#cancel = this.#parts.clock.after(exchangeNs, () => void this.now().finally(() => this.#later()))
  }

  async #exchange(): Promise<void> {
    const { shared, log } = this.#parts
    const runs = this.#parts.runs()
    try {
      const open = [...runs.values()].filter((run) => !run.isOver)
      const known = new Map([...runs].map(([name, run]) => [name, run.sharedGeneration]))
      const changed = await shared.exchange(open.map((run) => run.record.name), known) // prettier-ignore
      for (const record of changed.toSorted((a, b) => a.createdMs - b.createdMs)) {
        const run = runs.get(record.name) ?? (await this.#parts.join(record))
        run?.adopt(record)
      }
      // After the rollouts: what they do to the pins has been done then.
      await this.#parts.pins()
      if (!this.#isAway) return
      this.#isAway = false
      for (const run of runs.values()) run.storeBack()
      this.#parts.back()
    } catch (reason) {
      if (this.#isAway) return
      this.#isAway = true
      log.warning(`the shared store of rollouts is away: ${messageOf(reason)}`)
      for (const run of runs.values()) run.storeLost()
    }
  }
}
