// Reads the rollout file of a model, beside config.pbtxt. A file with a mistake changes nothing: it is reported, and a new
// version waits until the file is right.

import { messageOf } from '../base/server-error.ts'
import type { PlanProblem } from '../base/plan-reader.ts'
import { readRolloutFile } from '../rollouts/rollout-file.ts'
import type { ExperimentPlan, RolloutPlan } from '../rollouts/rollout-plan.ts'
import type { RepositoryStore } from '../repository/repository-store.ts'
import { findRolloutFile } from './find-rollout-file.ts'

export type FoundRolloutFile = {
  /** The file's name inside the model's folder; '' when there is none. */
  readonly file: string
  readonly spec: unknown
  /** Null when there is no file, or when it has problems. */
  readonly plan: RolloutPlan | ExperimentPlan | null
  readonly problems: readonly PlanProblem[]
}

const largestRolloutFileBytes = 64 * 1024

const noFile: FoundRolloutFile = { file: '', spec: null, plan: null, problems: [] }

/** Never throws: `problems` has what is wrong. */
export async function readRolloutFileOf(store: RepositoryStore, root: string, name: string): Promise<FoundRolloutFile> {
  const file = await findRolloutFile(store, root, name)
  if (file === '') return noFile
  // The YAML library is loaded only when there is a rollout file.
  const { parseFileText, FileTextError } = await import('../base/file-text.ts')
  try {
    const text = await store.readText(root, `${name}/${file}`, largestRolloutFileBytes)
    const { value, positionOf } = parseFileText(text, file.endsWith('.json') ? 'json' : 'yaml')
    return { file, spec: value, ...readRolloutFile(value, positionOf) }
  } catch (reason) {
    const position = reason instanceof FileTextError ? reason.position : null
    return { file, spec: null, plan: null, problems: [{ key: '', message: messageOf(reason), fix: '', position }] }
  }
}

export const problemText = (file: string, { message, fix, position }: PlanProblem): string =>
  `${file}${position === null ? '' : `:${position.line}:${position.column}`}: ${message}${fix === '' ? '' : `; ${fix}`}`
