// The process of `galatea check` in which models are loaded: it loads one after the other, says how it went, and unloads it again.

import { SystemClock } from './base/clock.ts'
import { ClosingStack } from './base/closing-stack.ts'
import { silentLog, type Log } from './base/log.ts'
import { endWorkers } from './base/running-workers.ts'
import { messageOf } from './base/server-error.ts'
import { buildEngine } from './build-engine.ts'
import type { Engine } from './engine/engine.ts'
import type { EngineSettings } from './options/server-options.ts'
import type { TrialOutcome } from './repository/load-trial.ts'

export type TrialTask = { readonly settings: EngineSettings; readonly root: string; readonly name: string }

const engines = new Map<string, Promise<Engine>>()
const noted = { errors: [] as string[], warnings: [] as string[] }

const log: Log = {
  ...silentLog,
  error: (text) => void noted.errors.push(text),
  warning: (text) => void noted.warnings.push(text),
  from: () => log,
}

/** What concerns many models together, or answers, is left out: one model is here at a time. */
const aloneWith = (settings: EngineSettings, root: string): EngineSettings => ({
  ...settings,
  modelRepositories: [root],
  modelControlMode: 'explicit',
  loadModels: [],
  hasModelNamespacing: false,
  isModelLoadLazy: false,
  modelIdleUnloadSecs: 0,
  modelMemoryLimitBytes: 0,
  gpuMemoryLimitBytes: new Map(),
  modelLoadRetryCount: 0,
  responseCache: null,
  rateLimit: null,
})

async function openEngine(settings: EngineSettings, root: string): Promise<Engine> {
  const { engine } = await buildEngine({ clock: new SystemClock(), log }, aloneWith(settings, root), new ClosingStack())
  await engine.start()
  return engine
}

async function outcomeOf({ settings, root, name }: TrialTask): Promise<TrialOutcome> {
  noted.errors.length = noted.warnings.length = 0
  let engine = engines.get(root)
  if (engine === undefined) engines.set(root, (engine = openEngine(settings, root)))
  const opened = await engine
  try {
    const thrown = await opened.load(name).then(
      () => '',
      (reason: unknown) => messageOf(reason),
    )
    const failed = opened.index().filter((entry) => entry.name === name && entry.state === 'UNAVAILABLE')
    const reason = failed.map((entry) => entry.reason).find((text) => text !== '') ?? thrown
    const config = opened.servedModel(name)?.latest?.config ?? null
    if (reason === '' && config !== null) return { kind: 'loaded', config }
    return { kind: 'failed', reason: pollReason(name) ?? reason, hints: hintsOf(name) }
  } finally {
    await opened.unload(name).then(
      ({ gone }) => gone,
      () => undefined,
    )
  }
}

/** The answer to a load request does not have it: the log does. */
function pollReason(name: string): string | null {
  const prefix = `Poll failed for model directory '${name}': `
  return noted.errors.find((text) => text.startsWith(prefix))?.slice(prefix.length) ?? null
}

function hintsOf(name: string): string[] {
  const prefix = `hint for model '${name}': `
  return noted.warnings.filter((text) => text.startsWith(prefix)).map((text) => text.slice(prefix.length))
}

process.on('message', (task: TrialTask) => {
  outcomeOf(task).then(
    (outcome) => process.send?.(outcome),
    (reason: unknown) => process.send?.({ kind: 'failed', reason: messageOf(reason), hints: [] }),
  )
})
// A model that hangs is ended with the processes that it has.
const end = (): never => {
  endWorkers()
  process.exit()
}
process.on('SIGTERM', end)
process.on('disconnect', end)
