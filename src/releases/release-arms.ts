// Which versions the arms of a new rollout or experiment are. What a file may say and this server does not do is refused.

import { ServerError } from '../base/server-error.ts'
import { compareVersions } from '../repository/version-policy.ts'
import type { FoundModel } from '../repository/model-repository.ts'
import type { ExperimentPlan, RolloutPlan, VersionReference } from '../rollouts/rollout-plan.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { PinBook } from './pin-book.ts'
import type { ArmVersion } from './release-record.ts'

type ArmParts = { readonly fleet: ModelFleet; readonly pins: PinBook }

type Wanted<Plan> = {
  readonly model: string
  readonly plan: Plan
  /** A version that is held may be tried again. */
  readonly isRetry: boolean
}

/** Stable, then the candidate. Throws what is wrong with them. */
export async function rolloutArms(
  parts: ArmParts,
  { model, plan, isRetry }: Wanted<RolloutPlan>,
  polled: FoundModel,
): Promise<ArmVersion[]> {
  const { fleet } = parts
  refuseUnknownKinds(plan)
  const stable = plan.stable.version === 'current' ? fleet.standardOf(model) : plan.stable.version
  if (stable === '') throw new ServerError('INVALID_ARG', `model '${model}' does not serve: a rollout needs a stable version`) // prettier-ignore
  const others = polled.versions.filter((version) => version !== stable)
  const highest = others.toSorted(compareVersions).at(-1)
  const candidate = plan.candidate.version === 'latest' ? highest : plan.candidate.version
  if (candidate === undefined) {
    throw new ServerError(
      'INVALID_ARG',
      `model '${model}' has version ${stable} alone: put a new version into its folder`,
    )
  }
  requirePresent(model, polled, [stable, candidate])
  if (candidate === stable) throw new ServerError('INVALID_ARG', `version ${stable} of model '${model}' is stable already: it cannot be the candidate`) // prettier-ignore
  const hash = await fleet.hashOf(polled, candidate)
  await requireNotHeld(parts, { model, version: candidate, hash, isRetry }, polled)
  return [
    { arm: 'stable', model, version: stable, hash: await fleet.hashOf(polled, stable) },
    { arm: 'candidate', model, version: candidate, hash },
  ]
}

/** In the order of the plan. Throws what is wrong with them. */
export async function experimentArms(
  parts: ArmParts,
  { model, plan, isRetry }: Wanted<ExperimentPlan>,
  polled: FoundModel,
): Promise<ArmVersion[]> {
  const { fleet } = parts
  const arms: ArmVersion[] = []
  for (const { name, reference } of plan.arms) {
    const isOwn = reference.model === null || reference.model === model
    const from = isOwn ? polled : await otherModel(fleet, { model, plan }, name, reference.model as string)
    const ofModel = isOwn ? model : fleet.labelOf(from)
    const highest = from.versions.toSorted(compareVersions).at(-1) ?? ''
    const latest = isOwn ? highest : fleet.standardOf(ofModel)
    const version = reference.version === 'latest' ? latest : reference.version
    requirePresent(ofModel, from, [version])
    const hash = await fleet.hashOf(from, version)
    await requireNotHeld(parts, { model: ofModel, version, hash, isRetry }, from)
    arms.push({ arm: name, model: ofModel, version, hash })
  }
  return arms
}

/** Nobody becomes the default version of a model with the files of another model, and the control is the default version. */
async function otherModel(
  fleet: ModelFleet,
  { model, plan }: { readonly model: string; readonly plan: ExperimentPlan },
  arm: string,
  other: string,
): Promise<FoundModel> {
  if (arm === plan.arms[0]?.name) throw new ServerError('INVALID_ARG', `the first arm '${arm}' names the model '${other}': the first arm must be a version of '${model}' itself`) // prettier-ignore
  if (plan.isWinnerPromoted) throw new ServerError('INVALID_ARG', `'promote_winner' goes with versions of one model, and the arm '${arm}' names the model '${other}'`) // prettier-ignore
  const polled = await fleet.poll(other)
  if (fleet.standardOf(fleet.labelOf(polled)) !== '') return polled
  throw new ServerError('INVALID_ARG', `model '${other}', which is the arm '${arm}', does not serve: load it first`)
}

function requirePresent(model: string, polled: FoundModel, versions: readonly string[]): void {
  for (const version of versions) {
    if (polled.versions.includes(version)) continue
    throw new ServerError(
      'INVALID_ARG',
      `model '${model}' has no version ${version}, it has ${polled.versions.join(', ')}`,
    )
  }
}

async function requireNotHeld(
  { pins }: ArmParts,
  arm: { readonly model: string; readonly version: string; readonly hash: string; readonly isRetry: boolean },
  { repositoryPath }: FoundModel,
): Promise<void> {
  const { model, version, hash, isRetry } = arm
  const held = pins.in(model, repositoryPath)?.held.find((one) => one.version === version && one.hash === hash)
  if (held === undefined) return
  if (!isRetry) {
    throw new ServerError('ALREADY_EXISTS', `version ${version} of model '${model}' is held since the rollout '${held.rollout}': its files are the same. Change them, or send "retry": true`) // prettier-ignore
  }
  await pins.release(model, repositoryPath, version)
}

function refuseOtherModel(what: string, { model }: VersionReference): void {
  if (model === null) return
  throw new ServerError('UNSUPPORTED', `${what} names the model '${model}': a rollout has versions of one model. Put the files of '${model}' into a version folder`) // prettier-ignore
}

function refuseUnknownKinds({ candidate, stable, hasBaseline }: RolloutPlan): void {
  for (const [key, reference] of Object.entries({ candidate, stable })) refuseOtherModel(`'${key}'`, reference)
  if (hasBaseline)
    throw new ServerError(
      'UNSUPPORTED',
      "'baseline' is not there yet: leave it out, and the candidate is compared with stable",
    )
}
