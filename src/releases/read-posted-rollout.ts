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

/**
 * Keys that were not posted come from the model's rollout file, where it has one. Throws INVALID_ARG with every problem. A caller that
 * nobody knows must not make the server call addresses: those of the file may be posted again, others may not.
 */
export function planOfPosted(
  { body }: PostedRollout,
  file: FoundRolloutFile,
  isCallerKnown: boolean,
): { readonly plan: RolloutPlan | ExperimentPlan; readonly spec: unknown } {
  const ofFile = file.plan === null || (body['kind'] ?? file.plan.kind) !== file.plan.kind ? {} : (file.spec as object)
  const posted = Object.fromEntries(
    Object.entries(body).filter(([key]) => !(ownKeys as readonly string[]).includes(key)),
  )
  const spec = { kind: 'rollout', ...ofFile, ...posted }
  const { plan, problems } = readRolloutFile(spec, () => null)
  if (plan !== null) {
    if (!isCallerKnown) requireAddressesOf(plan, file.plan === null ? [] : addressesOf(file.plan))
    return { plan, spec }
  }
  throw new ServerError('INVALID_ARG', problems.map((problem) => problemText('body', problem)).join('\n'))
}

function requireAddressesOf(plan: RolloutPlan | ExperimentPlan, known: readonly string[]): void {
  const other = addressesOf(plan).find((address) => !known.includes(address))
  if (other === undefined) return
  const advice = "put it into the rollout file of the model, or say who may post rollouts, with --access-config or --http-restricted-api" // prettier-ignore
  throw ServerError.withoutStack('INVALID_ARG', `the server does not call '${other.slice(0, 200)}' for a caller that it does not know: ${advice}`) // prettier-ignore
}

/** What the server calls for a rollout. */
const addressesOf = (plan: RolloutPlan | ExperimentPlan): string[] => [
  ...plan.notify.map(({ url }) => url),
  ...(plan.kind === 'rollout' ? plan.steps.flatMap((step) => (step.kind === 'webhook' ? [step.url] : [])) : []),
]
