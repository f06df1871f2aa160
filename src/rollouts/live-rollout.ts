// A rollout while it lives: requests of its model are routed to its arms and followed to their end. The control plane sets
// weights, reads the evidence and withdraws the candidate; nothing here decides anything.

import type { AccessLog } from '../base/access-log.ts'
import type { Clock } from '../base/clock.ts'
import { ServerError } from '../base/server-error.ts'
import { LoopPressure } from '../base/loop-pressure.ts'
import type { Chooser, RequestFacts, VersionChoice } from '../model/choice.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { ModelVersion } from '../model/model-version.ts'
import type { RequestOrigin } from '../model/request-origin.ts'
import { AnswerReader } from './answer-reader.ts'
import { RandomDraws } from './assignment.ts'
import { CompareThread } from './compare-thread.ts'
import type { FeedbackDesk, FeedbackResult, FeedbackTaker } from './feedback-desk.ts'
import { FeedbackMemory, type FeedbackEntry } from './feedback.ts'
import { Evidence } from './judge/evidence.ts'
import { GoalValues, type KeptGoal } from './judge/experiment-report.ts'
import type { EvidenceSums } from './judge/metric-sums.ts'
import type { ArmName } from './judge/paired-values.ts'
import { emptySample, fillSample } from './fill-sample.ts'
import { RolloutArm, type ArmSettings } from './rollout-arm.ts'
import { armWith, begunSequence, rolloutChooser } from './rollout-chooser.ts'
import type { ExperimentPlan, RolloutPlan, ShadowStep } from './rollout-plan.ts'
import { RolloutRouter } from './rollout-router.ts'
import { isFailureOfModel, RoutedRequest, type RoutedRequests } from './routed-request.ts'
import type { SequenceKeeper } from './sequence-keeper.ts'
import { ShadowCopies } from './shadow-copies.ts'
import { ShadowRecord } from './shadow-record.ts'

/** The part of the Engine that a rollout needs. */
interface RoutingEngine {
  /** With null `of` goes: a rollout that came after it stays. */
  setChooser(name: string, chooser: Chooser | null, of?: SequenceKeeper): void
  findVersion(name: string, version: string): ModelVersion
  infer(request: InferenceRequest, version: ModelVersion, isExpected?: boolean): void
}

type LiveRolloutParts = {
  readonly engine: RoutingEngine
  readonly clock: Clock
  /** Two capital letters; '' when it is not known. */
  readonly countryOf: (origin: RequestOrigin) => string
  /** How busy the server is, 0 to 1. Absent: the main thread's share of busy time. */
  readonly pressure?: () => number
  /** Copies of requests are written there; absent: nothing is written about single requests. */
  readonly accessLog?: AccessLog
  /** Where labels and scores of answers come in; absent: nobody sends any. */
  readonly desk?: FeedbackDesk
}

type LiveRolloutSettings = {
  /** The rollout's name. */
  readonly name: string
  /** The model that clients ask for. */
  readonly model: string
  readonly plan: RolloutPlan | ExperimentPlan
  /** Stable (or the control) first, then the candidate, then the baseline. Those of an experiment in the order of the plan. */
  readonly arms: readonly ArmSettings[]
  /** By the name of its arm: a copy of a version that nobody else finds. */
  readonly copies?: ReadonlyMap<string, ModelVersion>
  /** Sums of before a restart; empty: there are none. */
  readonly known: EvidenceSums
  /** Of an experiment: the values of before a restart, by goal. */
  readonly knownGoals?: Readonly<Record<string, KeptGoal>>
  /** Of the draws for requests without a key. */
  readonly seed: number
}

/** What `withdraw` found on the arms beside stable. */
type Withdrawal = {
  /** Requests that waited, and go to stable. */
  readonly moved: number
  /** Requests that have begun, or belong to a sequence: they end where they are. */
  readonly left: number
}

export function openLiveRollout(parts: LiveRolloutParts, settings: LiveRolloutSettings): LiveRollout {
  return new LiveRollout(parts, settings)
}

class LiveRollout implements RoutedRequests, FeedbackTaker, SequenceKeeper {
  readonly evidence: Evidence
  readonly shadow = new ShadowRecord()
  readonly feedback = new FeedbackMemory()
  /** Of an experiment: the values of each goal by arm. Empty for a rollout. */
  readonly goals: ReadonlyMap<string, GoalValues>
  readonly arms: readonly RolloutArm[]
  readonly #parts: LiveRolloutParts
  readonly #settings: LiveRolloutSettings
  readonly #router: RolloutRouter
  readonly #chooser: Chooser
  readonly #draws: RandomDraws
  readonly #reader: AnswerReader
  readonly #comparing: CompareThread
  readonly #pressure: () => number
  readonly #sample = emptySample()
  #copies: ShadowCopies | null = null
  #isClosed = false
  #isWithdrawn = false

  constructor(parts: LiveRolloutParts, settings: LiveRolloutSettings) {
    const { engine, clock, countryOf } = parts
    const { name, model, plan, arms, known, seed } = settings
    this.#parts = parts
    this.#settings = settings
    const draws = new RandomDraws(seed)
    const pressure = new LoopPressure(clock)
    this.#draws = draws
    this.#reader = new AnswerReader(plan)
    const goals = plan.kind === 'experiment' ? plan.goals : []
    this.goals = new Map(goals.map((goal) => [goal, new GoalValues(arms.length, settings.knownGoals?.[goal])]))
    if (this.#reader.wantsIds) parts.desk?.open(model, this)
    this.#comparing = new CompareThread(plan.kind === 'rollout' ? plan.compare : {})
    this.#pressure = parts.pressure ?? (() => pressure.read())
    const rules = plan.kind === 'rollout' ? plan.judge.metrics : []
    this.evidence = new Evidence(rules, known, draws.share, clock.nowNs())
    const find = (ofModel: string, version: string): ModelVersion => engine.findVersion(ofModel, version)
    this.arms = arms.map((arm, i) => {
      const copy = settings.copies?.get(arm.name)
      return new RolloutArm(i, arm, `${name}/${arm.name}/${arm.version}`, copy === undefined ? find : () => copy)
    })
    const { salt, key } = plan
    const armNames = arms.map((arm) => arm.name)
    this.#router = new RolloutRouter({ name, salt, key, rules: plan.rules, arms: armNames }, draws)
    this.#chooser = rolloutChooser({ router: this.#router, rollout: this, countryOf })
    engine.setChooser(model, this.#chooser, this)
  }

  get modelName(): string {
    return this.#settings.model
  }

  get hasFallback(): boolean {
    const { plan } = this.#settings
    return plan.kind === 'rollout' && plan.fallback === 'stable'
  }

  get isExposed(): boolean {
    return this.#settings.plan.isExposed
  }

  get stable(): RolloutArm {
    return this.arms[0] as RolloutArm
  }

  /**
   * The weights of the arms in their order, 0 to 10,000. Of a rollout only the candidate's, the second one, counts. One
   * assignment: the next request sees it.
   */
  setWeights(weights: readonly number[]): void {
    if (this.#settings.plan.kind === 'rollout') this.#router.setWeight(weights[1] ?? 0)
    else this.#router.setArmWeights(weights)
  }

  /** From now on a share of stable's requests is copied to the candidate; null: none. */
  setShadow(step: ShadowStep | null): void {
    this.#copies?.close()
    this.#copies = null
    const candidate = this.arms[1]
    if (step === null || step.share === 0 || candidate === undefined) return
    const { name } = this.#settings
    const { evidence, shadow: record } = this
    const infer = (request: InferenceRequest, version: ModelVersion): void => this.infer(request, version)
    const parts = { name, candidate, infer, draws: this.#draws, pressure: this.#pressure, comparing: this.#comparing }
    const { clock, accessLog = null } = this.#parts
    this.#copies = new ShadowCopies({ ...parts, record, evidence, clock, accessLog }, step)
  }

  /**
   * Sends every request to stable at once. Requests that wait for another arm and have not begun run on stable. Sequences and
   * requests that have begun end where they are.
   */
  withdraw(): Withdrawal {
    this.#isWithdrawn = true
    this.setWeights([])
    this.setShadow(null)
    let [moved, left] = [0, 0]
    for (const arm of this.arms) {
      for (const routed of arm.underWay ?? []) {
        if (routed.move()) moved++
        else left++
      }
    }
    return { moved, left }
  }

  /** Requests of the arm that have not ended. */
  inFlight(arm: number): number {
    return this.arms[arm]?.inFlight ?? 0
  }

  /** Requests are no longer routed. Those under way end as they would. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.setShadow(null)
    this.#comparing.close()
    this.#parts.engine.setChooser(this.#settings.model, null, this)
  }

  choose(facts: RequestFacts, model: VersionChoice): ModelVersion {
    return this.#chooser(facts, '', model)
  }

  holdsSequence(facts: RequestFacts): boolean {
    const hasSequences = this.arms.some((arm) => (arm.ready()?.config.sequenceBatching ?? null) !== null)
    const sequence = hasSequences ? begunSequence(facts) : null
    return sequence !== null && armWith(this.arms, sequence) !== null
  }

  /** Sequences end where they began, unless the plan ends them with the rollback. */
  requireSequences(arm: RolloutArm): void {
    const { plan, name, model } = this.#settings
    const isEnded = this.#isWithdrawn && arm.index !== 0 && plan.kind === 'rollout' && plan.sequences === 'fail'
    if (!isEnded) return
    const text = `the sequence of model '${model}' has ended: version ${arm.settings.version} was withdrawn by the rollback of rollout '${name}'. Begin the sequence anew`
    throw ServerError.withoutStack('UNAVAILABLE', text)
  }

  isOpen(arm: RolloutArm): boolean {
    return !this.#isClosed && this.#router.isOpen(arm.index)
  }

  get isReading(): boolean {
    return this.#reader.isReading
  }

  get wantsIds(): boolean {
    return this.#reader.wantsIds
  }

  read({ arm: { index }, bucket, isJudged, feedbackId }: RoutedRequest, response: InferenceResponse): void {
    const reader = this.#reader
    const arm = this.#judgedAs(index)
    if (arm !== null && isJudged) {
      for (const [metric, drifted] of reader.classes(response)) this.evidence.addClass(arm, metric, drifted)
    }
    if (!reader.wantsIds) return
    const answer = { arm: index, isJudged, bucket, prediction: reader.prediction(response) }
    this.feedback.remember(feedbackId, answer, this.#parts.clock.nowNs())
  }

  takeFeedback(entry: FeedbackEntry): FeedbackResult {
    const finding = this.feedback.find(entry, this.#parts.clock.nowNs())
    if (!('of' in finding)) return finding.kind === 'no-prediction' ? 'no_prediction' : finding.kind
    const { arm: index, bucket, isJudged } = finding.of
    if (!isJudged) return 'not_judged'
    const goal = finding.kind === 'score' ? `score:${finding.name}` : 'accuracy'
    const value = finding.kind === 'score' ? finding.score : finding.isWrong ? 0 : 1
    // Without a key each request stands for itself: it gets a bucket by chance. All arms together have 10,000 such buckets.
    this.goals.get(goal)?.add(index, bucket ?? Math.floor(this.#draws.bucket() / this.arms.length), value)
    const arm = this.#judgedAs(index)
    if (arm === null) return 'accepted'
    if (finding.kind === 'score') this.evidence.addScore(arm, finding.name, finding.score)
    else this.evidence.addCorrectness(arm, finding.isWrong, bucket)
    return 'accepted'
  }

  infer(request: InferenceRequest, version: ModelVersion): void {
    this.#parts.engine.infer(request, version, true)
  }

  nowNs(): number {
    return this.#parts.clock.nowNs()
  }

  admitted(routed: RoutedRequest, request: InferenceRequest, areInputsKept: boolean): void {
    if (this.#copies !== null) this.#copies.take(routed, request, areInputsKept)
  }

  ended(routed: RoutedRequest, request: InferenceRequest, response: InferenceResponse, isHidden: boolean): void {
    const isError = isFailureOfModel(response, request)
    const isIgnored = response.error !== null && !isError
    routed.arm.ended[isHidden ? 'hidden_error' : isError ? 'error' : isIgnored ? 'ignored' : 'success']++
    if (!routed.isJudged || isIgnored || request.isCacheHit) return
    routed.arm.judged++
    const arm = this.#judgedAs(routed.arm.index)
    if (arm === null) return
    // A request that no version counted has no end of its own. To ask the clock costs as much as the rest.
    const endNs = request.endNs === 0 ? this.#parts.clock.nowNs() : request.endNs
    fillSample(this.#sample, routed, request, isError, endNs)
    this.evidence.addRequest(arm, this.#sample)
  }

  /** With a baseline the baseline is the control, and stable's requests are not compared. */
  #judgedAs(index: number): ArmName | null {
    if (index === 1) return 'candidate'
    return index === (this.arms.length > 2 ? 2 : 0) ? 'stable' : null
  }
}
