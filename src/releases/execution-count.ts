import type { ServedVersion } from '../engine/serving/served-version.ts'

type Counted = { readonly executions: number; readonly deaths: number }

/** Executions of a version, and how many of its workers died, since it was asked before. */
export class ExecutionCount {
  readonly #version: () => ServedVersion | null
  #last: Counted

  /** Null: the version does not serve now. */
  constructor(version: () => ServedVersion | null) {
    this.#version = version
    this.#last = this.#now()
  }

  take(): Counted {
    const [last, now] = [this.#last, this.#now()]
    this.#last = now
    // A version that was loaded anew counts from 0.
    const isAnew = now.executions < last.executions || now.deaths < last.deaths
    if (isAnew) return now
    const deaths = now.deaths - last.deaths
    // A worker that dies takes an execution with it, which is not counted as done.
    return { executions: now.executions - last.executions + deaths, deaths }
  }

  #now(): Counted {
    const version = this.#version()
    if (version?.state !== 'READY') return { executions: 0, deaths: 0 }
    const deaths = version.instances.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0)
    return { executions: version.statistics().executionCount, deaths }
  }
}
