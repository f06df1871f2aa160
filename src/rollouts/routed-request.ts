// One request of a model with a live rollout, from the choice of its arm to its last answer. It counts for its arm, and runs
// again on stable where the candidate failed it.

import type { ChoiceWatch } from '../model/choice.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { ModelVersion } from '../model/model-version.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { feedbackIdOf, requestIdHeader } from './answer-reader.ts'
import type { MovableRequest, RolloutArm } from './rollout-arm.ts'
import type { ShadowPair } from './shadow-pair.ts'

/** What a RoutedRequest needs of its rollout. */
export interface RoutedRequests {
  readonly modelName: string
  readonly hasFallback: boolean
  /** Answers say which arm made them. */
  readonly isExposed: boolean
  readonly stable: RolloutArm
  /** False: the arm gets no more requests. */
  isOpen(arm: RolloutArm): boolean
  infer(request: InferenceRequest, version: ModelVersion): void
  nowNs(): number
  /** Stable has got the request. */
  admitted(routed: RoutedRequest, request: InferenceRequest, areInputsKept: boolean): void
  /** True: answers are read, for feedback or drift. */
  readonly isReading: boolean
  /** True: answers carry an id for feedback. */
  readonly wantsIds: boolean
  /** The first result that the client gets. */
  read(routed: RoutedRequest, response: InferenceResponse): void
  /** The request has ended on this arm, with its last answer or with the failure that runs again on stable. */
  ended(routed: RoutedRequest, request: InferenceRequest, response: InferenceResponse, isHidden: boolean): void
}

/** HOT: one per routed request. */
export class RoutedRequest implements ChoiceWatch, MovableRequest {
  readonly #rollout: RoutedRequests
  /** The bucket of its sticky key; null: it had none. */
  readonly bucket: number | null
  /** Shown, not judged. */
  isJudged: boolean
  #arm: RolloutArm
  #version: ModelVersion
  #inputs: Tensor[] | null = null
  #request: InferenceRequest | null = null
  /** The moment of its first answer; 0: none yet. */
  firstNs = 0
  answerCount = 0
  /** The id that feedback for the answer names; '': none is wanted. */
  feedbackId = ''
  /** Set where the candidate gets a copy of the request. */
  pair: ShadowPair | null = null

  constructor(
    rollout: RoutedRequests,
    arm: RolloutArm,
    version: ModelVersion,
    bucket: number | null,
    isJudged: boolean,
  ) {
    this.#rollout = rollout
    this.#arm = arm
    this.#version = version
    this.bucket = bucket
    this.isJudged = isJudged
  }

  get modelName(): string {
    return this.#rollout.modelName
  }

  get version(): ModelVersion {
    return this.#version
  }

  get armName(): string {
    return this.#arm.settings.name
  }

  exclude(): void {
    this.isJudged = false
  }

  get arm(): RolloutArm {
    return this.#arm
  }

  get variant(): string {
    return this.#arm.variant
  }

  get marks(): readonly string[] | null {
    const { isExposed, wantsIds } = this.#rollout
    const marks = isExposed ? this.#arm.marks : null
    return wantsIds && this.feedbackId !== '' ? [...(marks ?? []), requestIdHeader, this.feedbackId] : marks
  }

  /** The inputs as the client sent them. */
  get inputs(): Tensor[] {
    return this.#inputs ?? []
  }

  begun(request: InferenceRequest, areInputsKept: boolean): void {
    const isMidSequence = hasSequence(request) && !request.isSequenceStart
    if (this.#arm.index !== 0 && !isMidSequence && !this.#rollout.isOpen(this.#arm)) {
      this.#goToStable(this.#rollout.stable.ready())
    }
    this.#inputs = request.inputs
    if (this.#rollout.wantsIds) this.feedbackId = feedbackIdOf(request.id)
    this.#request = request
    this.#enter()
    if (this.#arm.index === 0) this.#rollout.admitted(this, request, areInputsKept)
  }

  answered(response: InferenceResponse, request: InferenceRequest): boolean {
    if (request !== this.#request) {
      // A run that was given up: another one answers in its place.
      response.release()
      return false
    }
    if (response.error !== null && this.#runsAgain(response, request)) return false
    if (this.pair !== null) this.pair.add('stable', response)
    const isResult = response.error === null && !response.isFlagOnly
    if (this.#rollout.isReading && isResult && this.answerCount === 0) this.#rollout.read(this, response)
    this.answerCount++
    if (this.firstNs === 0) this.firstNs = request.endNs
    if (response.isFinal) {
      this.#leave()
      this.#rollout.ended(this, request, response, false)
    }
    return true
  }

  move(): boolean {
    const request = this.#request
    return request !== null && !hasSequence(request) && request.leaveQueue()
  }

  /** True: the request runs on stable now. */
  #runsAgain(response: InferenceResponse, request: InferenceRequest): boolean {
    const isMoved = request.isLeaving
    const mayRun = isMoved || (this.#rollout.hasFallback && isFailureOfModel(response, request))
    if (!mayRun || this.#arm.index === 0 || this.answerCount > 0 || hasSequence(request)) return false
    const timeoutUs = leftOf(request, this.#rollout.nowNs())
    const stable = this.#rollout.stable.ready()
    if (timeoutUs < 0n || stable === null) return false
    this.#leave()
    if (!isMoved) this.#rollout.ended(this, request, response, true)
    this.#goToStable(stable)
    const next = request.again(this.inputs, timeoutUs)
    next.watch = this
    this.#request = next
    this.#enter()
    this.#rollout.infer(next, this.#version)
    return true
  }

  /** It was not drawn into stable: to judge it there would bend the comparison. */
  #goToStable(version: ModelVersion | null): void {
    if (version === null) return
    this.#arm = this.#rollout.stable
    this.#version = version
    this.isJudged = false
  }

  #enter(): void {
    this.#arm.inFlight++
    this.#arm.underWay?.add(this)
  }

  #leave(): void {
    this.#arm.inFlight--
    this.#arm.underWay?.delete(this)
  }
}

export const hasSequence = ({ correlationId }: InferenceRequest): boolean =>
  correlationId !== 0n && correlationId !== ''

/** A wrong request is wrong on every version; whoever went away needs no answer. What the model itself answers is the model's. */
export function isFailureOfModel(response: InferenceResponse, request: InferenceRequest): boolean {
  if (response.error === null) return false
  if (response.isAnswerOfModel) return true
  const { code } = response.error
  if (code === 'CANCELLED' || request.isCancelled) return false
  return code !== 'INVALID_ARG' && code !== 'NOT_FOUND' && code !== 'UNSUPPORTED' && code !== 'ALREADY_EXISTS'
}

/** What is left of the client's timeout, in microseconds; 0n: the request has no timeout. Below 0: nothing is left. */
function leftOf(request: InferenceRequest, nowNs: number): bigint {
  if (request.timeoutUs === 0n) return 0n
  const left = request.timeoutUs - BigInt(Math.ceil((nowNs - request.receivedNs) / 1000))
  return left > 0n ? left : -1n
}
