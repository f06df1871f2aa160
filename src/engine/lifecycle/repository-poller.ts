// Poll mode: looks at the repositories every few seconds, and loads and unloads what has changed there.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf } from '../../base/server-error.ts'
import type { ModelKey } from '../../model/model-key.ts'
import { keyOfModel, type PolledModel } from '../../repository/model-repository.ts'

/** What the poller needs of a repository and of the Engine. */
type PollerDependencies = {
  readonly clock: Clock
  readonly log: Log
  poll(): Promise<readonly PolledModel[]>
  /** A model whose files have not changed stays as it is. */
  load(key: ModelKey): Promise<void>
  unload(key: ModelKey): Promise<unknown>
}

/** What is to be done after one look at the repositories. */
type PollPlan = { readonly load: readonly string[]; readonly unload: readonly string[] }

type Fingerprints = ReadonlyMap<string, string>

/**
 * A model is loaded when its files were the same in two looks in a row and differ from those that were tried last. So a
 * model that is still being copied waits, and a model that fails is not tried again and again. Pure.
 */
export function planPoll(seen: Fingerprints, before: Fingerprints, tried: Fingerprints): PollPlan {
  const load: string[] = []
  for (const [name, fingerprint] of seen) {
    if (before.get(name) === fingerprint && tried.get(name) !== fingerprint) load.push(name)
  }
  return { load, unload: [...tried.keys()].filter((name) => !seen.has(name)) }
}

/** A model that cannot be read has no fingerprint; the error message serves as one. */
const fingerprintOf = (model: PolledModel): string =>
  model.error === null ? model.fingerprint : `unreadable: ${model.error.message}`

export class RepositoryPoller {
  readonly #dependencies: PollerDependencies
  readonly #everyNs: number
  #before: Fingerprints = new Map()
  readonly #tried: Map<string, string>
  #cancel: Cancel | null = null
  #isClosed = false

  /**
   * `atStart` names the models that the server has just loaded or tried to load. Each of them is loaded once more after
   * two looks, because its files may have changed during the first load. The Engine ignores models that have not changed.
   */
  constructor(dependencies: PollerDependencies, everySecs: number, atStart: Iterable<string>) {
    this.#dependencies = dependencies
    this.#everyNs = Math.max(0.1, everySecs) * 1e9
    this.#tried = new Map([...atStart].map((name) => [name, '']))
    this.#wait()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  /** The period begins when a look, and the loads that it caused, have ended. */
  #wait(): void {
    this.#cancel = this.#dependencies.clock.after(this.#everyNs, () => {
      void this.look().finally(() => {
        if (!this.#isClosed) this.#wait()
      })
    })
  }

  /** Never rejects: a repository that cannot be read now is looked at again later. */
  async look(): Promise<void> {
    const { log } = this.#dependencies
    let seen: Fingerprints
    try {
      seen = new Map((await this.#dependencies.poll()).map((model) => [keyOfModel(model), fingerprintOf(model)]))
    } catch (reason) {
      log.error('the model repository could not be read', { reason: messageOf(reason) })
      return
    }
    const plan = planPoll(seen, this.#before, this.#tried)
    this.#before = seen
    for (const name of plan.load) this.#tried.set(name, seen.get(name) as string)
    for (const name of plan.unload) this.#tried.delete(name)
    const changes = [
      ...plan.load.map((name) => this.#dependencies.load(name)),
      ...plan.unload.map((name) => this.#dependencies.unload(name)),
    ]
    for (const change of await Promise.allSettled(changes)) {
      if (change.status === 'rejected') log.error(messageOf(change.reason).trimEnd())
    }
  }
}
