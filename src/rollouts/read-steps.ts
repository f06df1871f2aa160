// `steps` of a rollout file.

import { fullWeight } from './assignment.ts'
import type { PlanValue } from '../base/plan-reader.ts'
import { optional } from './read-metrics.ts'
import type { Step } from './rollout-plan.ts'

const maxSteps = 64
const minute = 60e9
const hour = 3600e9
const defaultMinRequests = 100
const kinds = ['weight', 'shadow', 'pause', 'approval', 'webhook'] as const

const weightStep = (percent: number, forNs: number, isBake = false): Step => ({
  kind: 'weight',
  weight: percent * 100,
  forNs,
  minRequests: defaultMinRequests,
  isBake,
})

const usualSteps: readonly Step[] = [
  weightStep(1, 10 * minute),
  weightStep(5, 30 * minute),
  weightStep(25, 30 * minute),
  weightStep(50, 30 * minute),
  weightStep(100, hour, true),
]

export function readSteps(at: PlanValue): readonly Step[] {
  if (!at.isThere) return usualSteps
  const items = at.items(maxSteps, 'as in [{ weight: 5, for: 30m }, { weight: 100, bake: 1h }]') ?? []
  if (Array.isArray(at.value) && at.value.length === 0) at.fail('must have a step', 'leave it out for the usual steps')
  const steps: Step[] = []
  let highest = 0
  for (const item of items) {
    const step = readStep(item)
    if (step === null) continue
    if (step.kind === 'weight') {
      // A weight that falls would send users back to stable who had the candidate already.
      if (step.weight < highest) item.fail(`has the weight ${step.weight / 100} %, below the ${highest / 100} % of a step before it`, 'weights must not fall') // prettier-ignore
      highest = Math.max(highest, step.weight)
    }
    steps.push(step)
  }
  return steps
}

function readStep(at: PlanValue): Step | null {
  if (!at.isMapping) return at.mustBe(`a mapping with one of ${kinds.join(', ')}`)
  const present = kinds.filter((kind) => Object.hasOwn(at.value as object, kind))
  const [kind] = present
  if (present.length !== 1 || kind === undefined) {
    const got = present.length === 0 ? 'none of them' : present.join(' and ')
    return at.fail(`must have exactly one of ${kinds.join(', ')}, got ${got}`)
  }
  return { weight: readWeight, shadow: readShadow, pause: readPause, approval: readApproval, webhook: readWebhook }[
    kind
  ](at)
}

function readWeight(at: PlanValue): Step | null {
  const fields = at.fields(['weight', 'for', 'bake', 'min_requests'])
  const weight = fields?.weight.weight() ?? null
  if (fields === null || weight === null) return null
  if (weight === 0) return fields.weight.fail('must be above 0', 'use a shadow step or a pause in its place')
  const isBake = fields.bake.isThere
  if (isBake && weight !== fullWeight) return at.fail("has 'bake' below 100 %", "use 'for', or set the weight to 100")
  if (isBake && fields.for.isThere) return at.fail("must have 'for' or 'bake', not both")
  return {
    kind: 'weight',
    weight,
    forNs: optional(isBake ? fields.bake : fields.for, (value) => value.durationNs(), isBake ? hour : 10 * minute),
    // Nothing is compared at 100 %: a model without requests must not hold the rollout for ever.
    minRequests: optional(
      fields.min_requests,
      (value) => value.integer(0, 1e9),
      weight === fullWeight ? 0 : defaultMinRequests,
    ),
    isBake,
  }
}

function readShadow(at: PlanValue): Step | null {
  const fields = at.fields(['shadow', 'for', 'min_compared', 'max_in_flight', 'max_bytes', 'keep_inputs'])
  const share = fields?.shadow.weight() ?? null
  if (fields === null || share === null) return null
  if (share === 0) return fields.shadow.fail('must be above 0')
  return {
    kind: 'shadow',
    share,
    forNs: optional(fields.for, (value) => value.durationNs(), 10 * minute),
    minCompared: optional(fields.min_compared, (value) => value.integer(0, 1e9), defaultMinRequests),
    maxInFlight: optional<number | null>(fields.max_in_flight, (value) => value.integer(1, 1e6), null),
    maxBytes: optional(fields.max_bytes, (value) => value.integer(1, 2 ** 40), 4 * 1024 * 1024),
    isKeepingInputs: optional(fields.keep_inputs, (value) => value.flag(), false),
  }
}

function readPause(at: PlanValue): Step | null {
  const fields = at.fields(['pause'])
  const pause =
    fields?.pause.isThere === true ? fields.pause.fields(['for'], 'as in pause: {} or pause: { for: 1h }') : null
  return { kind: 'pause', forNs: optional<number | null>(pause?.for, (value) => value.durationNs(), null) }
}

function readApproval(at: PlanValue): Step | null {
  const fields = at.fields(['approval'])
  const approval =
    fields?.approval.isThere === true ? fields.approval.fields(['groups', 'not_author', 'timeout']) : null
  return {
    kind: 'approval',
    groups: optional(approval?.groups, (value) => value.texts(), []),
    isNotAuthor: optional(approval?.not_author, (value) => value.flag(), false),
    timeoutNs: optional(approval?.timeout, (value) => value.durationNs(), 24 * hour),
  }
}

function readWebhook(at: PlanValue): Step | null {
  const webhook =
    at.fields(['webhook'])?.webhook.fields(['url', 'timeout'], 'as in webhook: { url: "https://…" }') ?? null
  const url = webhook?.url.url() ?? null
  if (webhook === null || url === null) return null
  return { kind: 'webhook', url, timeoutNs: optional(webhook.timeout, (value) => value.durationNs(), minute) }
}
