// Which arm serves a request that names no version. Rules come first, then the sticky key, then chance.

import { fullWeight, laneOf, StickyBuckets, type Lane, type RandomDraws } from './assignment.ts'
import { variantHeader } from './rollout-arm.ts'
import type { KeySource } from './rollout-plan.ts'
import { cookieOf, matchRule, type RouteFacts, type TrafficRule } from './traffic-rule.ts'

/** `arm` is the place in the list of arms; 0 is stable or the control. */
export type Assignment = {
  readonly arm: number
  /** The bucket of the sticky key; null: the request had none. */
  readonly bucket: number | null
  /** A rule named the arm: such requests are shown, not judged. */
  readonly isForced: boolean
  /** Chance and the weights alone decided, without a rule, a key or an echoed arm. */
  readonly isDrawn: boolean
}

type RouterSettings = {
  /** The rollout's name. */
  readonly name: string
  readonly salt: string
  readonly key: readonly KeySource[]
  readonly rules: readonly TrafficRule[]
  /** Stable or the control first. */
  readonly arms: readonly string[]
}

/** A rollout with a baseline has the arms stable, candidate, baseline. */
const baselineArm = 2

export class RolloutRouter {
  readonly #settings: RouterSettings
  readonly #draws: RandomDraws
  readonly #buckets: StickyBuckets
  readonly #echoesVariant: boolean
  /** Of the arms after the first one. */
  #lanes: readonly Lane[]
  #baseline = 0
  /** The arm of each bucket where no rule says otherwise. */
  #armOfBucket = new Uint8Array(fullWeight)

  constructor(settings: RouterSettings, draws: RandomDraws) {
    this.#settings = settings
    this.#draws = draws
    this.#buckets = new StickyBuckets(settings.salt === '' ? settings.name : settings.salt)
    this.#lanes = settings.arms.slice(1).map(() => ({ weight: 0, cap: 0 }))
    this.#echoesVariant = settings.key.some(({ from }) => from === 'variant')
  }

  /**
   * The weight of the only candidate, 0 to 10,000. One assignment: the next request sees it. With a third arm, the
   * baseline, as many buckets from the upper end go to the baseline, as far as there are any left.
   */
  setWeight(weight: number): void {
    this.#lanes = [{ weight, cap: fullWeight }]
    this.#baseline = this.#settings.arms.length > 2 ? Math.min(weight, fullWeight - weight) : 0
    this.#armOfBucket = this.#table()
  }

  /** The weights of all arms of an experiment, the control included. They never change, so each lane is full. */
  setArmWeights(weights: readonly number[]): void {
    this.#lanes = weights.slice(1).map((weight) => ({ weight, cap: weight }))
    this.#armOfBucket = this.#table()
  }

  /** A switch must not be felt: ranges are filled, because to ask for each bucket takes milliseconds. */
  #table(): Uint8Array<ArrayBuffer> {
    const arms = new Uint8Array(fullWeight)
    if (this.#baseline > 0) arms.fill(baselineArm, fullWeight - this.#baseline)
    let start = 0
    this.#lanes.forEach(({ weight, cap }, i) => {
      arms.fill(i + 1, start, start + weight)
      start += cap
    })
    return arms
  }

  #armIn(lanes: readonly Lane[], bucket: number): number {
    const lane = laneOf(lanes, bucket)
    return lane === -1 && bucket >= fullWeight - this.#baseline ? baselineArm : lane + 1
  }

  /** HOT: once per request without a version, while a rollout lives. */
  route(facts: RouteFacts): Assignment {
    const { rules } = this.#settings
    const rule = rules.length === 0 ? null : matchRule(rules, facts)
    if (rule?.to != null) {
      const arm = this.#settings.arms.indexOf(rule.to)
      return { arm: this.isOpen(arm) ? arm : 0, bucket: null, isForced: true, isDrawn: false }
    }
    const echoed = this.#echoesVariant ? this.#echoedArm(facts) : -1
    if (echoed !== -1) return { arm: echoed, bucket: null, isForced: false, isDrawn: false }
    const key = stickyKeyOf(this.#settings.key, facts)
    const bucket = key === null ? this.#draws.bucket() : this.#buckets.bucket(key)
    const isCohort = rule?.weight != null && this.isOpen(1)
    const arm = isCohort
      ? this.#armIn([{ weight: rule.weight, cap: fullWeight }], bucket)
      : (this.#armOfBucket[bucket] as number)
    return { arm, bucket: key === null ? null : bucket, isForced: false, isDrawn: key === null && rule === null }
  }

  /** An arm with the weight 0 is not touched, by no rule and no key. */
  isOpen(arm: number): boolean {
    return arm === 0 || (this.#lanes[arm - 1]?.weight ?? (arm === baselineArm ? this.#baseline : 0)) > 0
  }

  /** -1: the request brought no arm of this rollout, or a source before `variant` is there. */
  #echoedArm(facts: RouteFacts): number {
    const { key, arms, name } = this.#settings
    for (const source of key) {
      if (source.from !== 'variant') {
        if ((keyFrom(source, facts) ?? '') !== '') return -1
        continue
      }
      const [rollout, arm = ''] = (facts.header(variantHeader) ?? '').split('/')
      const index = rollout === name ? arms.indexOf(arm) : -1
      if (index !== -1 && this.isOpen(index)) return index
    }
    return -1
  }
}

/** The first source that the request has decides. A sequence without a key stays together by its id. Null: there is no key. */
export function stickyKeyOf(sources: readonly KeySource[], facts: RouteFacts): string | null {
  for (let i = 0; i < sources.length; i++) {
    const key = keyFrom(sources[i] as KeySource, facts)
    if (key !== null && key !== '') return key
  }
  const correlationId = facts.correlationId()
  return correlationId === '' ? null : correlationId
}

function keyFrom(source: KeySource, facts: RouteFacts): string | null {
  switch (source.from) {
    case 'header':
      return facts.header(source.name)
    case 'cookie':
      return cookieOf(facts, source.name)
    case 'parameter':
      return facts.parameter(source.name)
    case 'principal':
      return facts.principal
    case 'tenant':
      return facts.tenant
    case 'variant':
    default:
      return null
  }
}
