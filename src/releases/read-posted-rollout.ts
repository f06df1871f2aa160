// The body of POST /v2/rollouts: the object of a rollout file, with the model it is for.

import { ServerError } from '../base/server-error.ts'
import { readRolloutFile } from '../rollouts/rollout-file.ts'
import type { ExperimentPlan, RolloutPlan } from '../rollouts/rollout-plan.ts'
import { problemText, type FoundRolloutFile } from './rollout-files.ts'

const ownKeys = ['name', 'model', 'retry'] as const

type PostedRollout = {
  readonly name: string
  readonly model: string
  readonly isRetry: boolean
  readonly body: Readonly<Record<string, unknown>>
}

/** Throws INVALID_ARG. */
export function readPosted(body: unknown): PostedRollout {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ServerError('INVALID_ARG', 'the body must be an object, as {"model": "digits", "candidate": 2}')
  }
  const { name = '', model, retry = false } = body as Readonly<Record<string, unknown>>
  if (typeof model !== 'string' || model === '') {
    throw new ServerError('INVALID_ARG', 'the body needs the key \'model\', as {"model": "digits"}')
  }
  if (typeof name !== 'string') throw new ServerError('INVALID_ARG', "'name' must be text")
  if (typeof retry !== 'boolean') throw new ServerError('INVALID_ARG', "'retry' must be true or false")
  return { name, model, isRetry: retry, body: body as Readonly<Record<string, unknown>> }
}

/** Keys that were not posted come from the model's rollout file, where it has one. Throws INVALID_ARG with every problem. */
export function planOfPosted(
  { body }: PostedRollout,
  file: FoundRolloutFile,
): { readonly plan: RolloutPlan | ExperimentPlan; readonly spec: unknown } {
  const ofFile = file.plan === null || (body['kind'] ?? file.plan.kind) !== file.plan.kind ? {} : (file.spec as object)
  const posted = Object.fromEntries(
    Object.entries(body).filter(([key]) => !(ownKeys as readonly string[]).includes(key)),
  )
  const spec = { kind: 'rollout', ...ofFile, ...posted }
  const { plan, problems } = readRolloutFile(spec, () => null)
  if (plan !== null) return { plan, spec }
  throw new ServerError('INVALID_ARG', problems.map((problem) => problemText('body', problem)).join('\n'))
}
