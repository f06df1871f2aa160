// Which versions the arms of a new rollout or experiment are.

import { ServerError } from '../base/server-error.ts'
import { compareVersions } from '../repository/version-policy.ts'
import type { FoundModel } from '../repository/model-repository.ts'
import type { ExperimentPlan, RolloutPlan } from '../rollouts/rollout-plan.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { PinBook } from './pin-book.ts'
import { baselineArmName, type ArmVersion, type HeldVersion } from './release-record.ts'

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
  const stable = await stableArm(parts, model, plan, polled)
  const candidate =
    plan.candidate.model === null || plan.candidate.model === model
      ? await ownCandidate(parts, { model, plan }, polled, stable)
      : await candidateOfOther(parts, plan.candidate.model, plan.candidate.version)
  if (candidate.model === stable.model && candidate.version === stable.version) {
    throw new ServerError('INVALID_ARG', `version ${stable.version} of model '${stable.model}' is stable already: it cannot be the candidate`) // prettier-ignore
  }
  await requireNotHeld(parts, { ...candidate, of: model, isRetry }, polled)
  return [stable, candidate, ...(plan.hasBaseline ? [{ ...stable, arm: baselineArmName }] : [])]
}

/** Throws where the model has no version that serves. */
async function stableArm(
  { fleet, pins }: ArmParts,
  model: string,
  { stable: { model: named, version } }: RolloutPlan,
  polled: FoundModel,
): Promise<ArmVersion> {
  if (named !== null && named !== model) {
    throw new ServerError('INVALID_ARG', `'stable' names the model '${named}': stable is a version of '${model}' itself, or current`) // prettier-ignore
  }
  const found = version === 'current' ? pins.currentOf(model) : { model, version }
  if (found === null) throw new ServerError('INVALID_ARG', `model '${model}' does not serve: a rollout needs a stable version`) // prettier-ignore
  const from = found.model === model ? polled : await fleet.poll(found.model)
  requirePresent(found.model, from, [found.version])
  return { arm: 'stable', ...found, hash: await fleet.hashOf(from, found.version) }
}

async function ownCandidate(
  { fleet }: ArmParts,
  { model, plan }: { readonly model: string; readonly plan: RolloutPlan },
  polled: FoundModel,
  stable: ArmVersion,
): Promise<ArmVersion> {
  const others = polled.versions.filter((version) => stable.model !== model || version !== stable.version)
  const highest = others.toSorted(compareVersions).at(-1)
  const version = plan.candidate.version === 'latest' ? highest : plan.candidate.version
  if (version === undefined) {
    throw new ServerError(
      'INVALID_ARG',
      `model '${model}' has version ${stable.version} alone: put a new version into its folder`,
    )
  }
  requirePresent(model, polled, [version])
  return { arm: 'candidate', model, version, hash: await fleet.hashOf(polled, version) }
}

/** A version of another model, which serves under its own name, too. `latest` is what requests for that model get. */
async function candidateOfOther({ fleet }: ArmParts, other: string, wanted: string): Promise<ArmVersion> {
  const polled = await fleet.poll(other)
  const model = fleet.labelOf(polled)
  const standard = fleet.standardOf(model)
  if (standard === '') throw new ServerError('INVALID_ARG', `model '${other}', which is the candidate, does not serve: load it first`) // prettier-ignore
  const version = wanted === 'latest' ? standard : wanted
  requirePresent(model, polled, [version])
  return { arm: 'candidate', model, version, hash: await fleet.hashOf(polled, version) }
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
    await requireNotHeld(parts, { model: ofModel, version, hash, of: model, isRetry }, polled)
    arms.push({ arm: name, model: ofModel, version, hash })
  }
  return arms
}

/** The control is the default version of the model itself. */
async function otherModel(
  fleet: ModelFleet,
  { model, plan }: { readonly model: string; readonly plan: ExperimentPlan },
  arm: string,
  other: string,
): Promise<FoundModel> {
  if (arm === plan.arms[0]?.name) throw new ServerError('INVALID_ARG', `the first arm '${arm}' names the model '${other}': the first arm must be a version of '${model}' itself`) // prettier-ignore
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

/** `of` is the model whose requests the version would get. */
async function requireNotHeld(
  { pins }: ArmParts,
  arm: Pick<ArmVersion, 'model' | 'version' | 'hash'> & { readonly of: string; readonly isRetry: boolean },
  { repositoryPath }: FoundModel,
): Promise<void> {
  const { model, version, hash, of, isRetry } = arm
  const isSame = (one: HeldVersion): boolean => one.version === version && (one.model ?? of) === model
  const held = pins.in(of, repositoryPath)?.held.find((one) => isSame(one) && one.hash === hash)
  if (held === undefined) return
  if (!isRetry) {
    throw new ServerError('ALREADY_EXISTS', `version ${version} of model '${model}' is held since the rollout '${held.rollout}': its files are the same. Change them, or send "retry": true`) // prettier-ignore
  }
  await pins.release(of, repositoryPath, held)
}
