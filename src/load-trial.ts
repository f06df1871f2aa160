// Loads models in processes beside this one: a model that crashes, hangs or prints does it there.

import { availableParallelism } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { forkProcess, type ForkedProcess } from './backends/forked-process.ts'
import type { Clock } from './base/clock.ts'
import type { TrialTask } from './load-trial-program.ts'
import type { EngineSettings } from './options/server-options.ts'
import type { LoadTrial, TrialOutcome } from './repository/load-trial.ts'

const entry = fileURLToPath(new URL(`./load-trial-program${path.extname(import.meta.url)}`, import.meta.url))

/** Models that are loaded at the same time. */
const trialsAtOnce = 4
/** A process that was asked to end ends its children first. */
const endingNs = 2e9

type WaitingTask = { readonly task: TrialTask; readonly resolve: (outcome: TrialOutcome) => void }

export function openLoadTrial(clock: Clock, settings: EngineSettings, timeoutSecs: number): LoadTrial {
  const waiting: WaitingTask[] = []
  const count = Math.min(trialsAtOnce, availableParallelism())
  const lanes = Array.from({ length: count }, () => new TrialLane(clock, timeoutSecs))
  const idle = [...lanes]
  const work = async (lane: TrialLane): Promise<void> => {
    for (let first = waiting.shift(); first !== undefined; first = waiting.shift()) {
      first.resolve(await lane.run(first.task))
    }
    idle.push(lane)
  }
  return {
    load: (root, name) =>
      new Promise((resolve) => {
        waiting.push({ task: { settings, root, name }, resolve })
        const lane = idle.pop()
        if (lane !== undefined) void work(lane)
      }),
    close: async () => {
      await Promise.all(lanes.map((lane) => lane.end()))
    },
  }
}

/** One process after another, each until a model ends it. */
class TrialLane {
  readonly #clock: Clock
  readonly #timeoutSecs: number
  #process: ForkedProcess<TrialTask> | null = null
  #answer: ((outcome: TrialOutcome) => void) | null = null

  constructor(clock: Clock, timeoutSecs: number) {
    this.#clock = clock
    this.#timeoutSecs = timeoutSecs
  }

  async run(task: TrialTask): Promise<TrialOutcome> {
    const { promise, resolve } = Promise.withResolvers<TrialOutcome>()
    this.#answer = resolve
    this.#process ??= this.#start()
    this.#process.post(task)
    const cancel = this.#clock.after(this.#timeoutSecs * 1e9, () =>
      resolve({ kind: 'unfinished', seconds: this.#timeoutSecs }),
    )
    const outcome = await promise
    cancel()
    if (outcome.kind === 'unfinished') await this.end()
    this.#answer = null
    return outcome
  }

  async end(): Promise<void> {
    const ending = this.#process
    this.#process = null
    if (ending === null) return
    if (ending.processId !== undefined) process.kill(ending.processId, 'SIGTERM')
    const cancel = this.#clock.after(endingNs, () => void ending.terminate())
    await ending.gone
    cancel()
  }

  #start(): ForkedProcess<TrialTask> {
    const started = forkProcess<TrialTask, TrialOutcome>(
      entry,
      { environment: process.env, nodeOptions: [] },
      {
        onMessage: (outcome) => this.#answer?.(outcome),
        onLine: () => undefined,
        onExit: (reason) => {
          if (this.#process !== started) return
          this.#process = null
          this.#answer?.({
            kind: 'failed',
            reason: `the server would end while it loads this model: ${reason}`,
            hints: [],
          })
        },
      },
    )
    return started
  }
}
