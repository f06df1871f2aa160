// Copies of stable's requests for the candidate. Nobody waits for them and nobody must feel them: whatever is in the way, a
// copy is dropped and counted.

import type { AccessLog } from '../base/access-log.ts'
import type { Clock } from '../base/clock.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import type { ModelVersion } from '../model/model-version.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { bucketOf, type RandomDraws } from './assignment.ts'
import type { CompareThread } from './compare-thread.ts'
import type { Evidence } from './judge/evidence.ts'
import type { RolloutArm } from './rollout-arm.ts'
import type { ShadowStep } from './rollout-plan.ts'
import { hasSequence, type RoutedRequest } from './routed-request.ts'
import { copyOf, ShadowPair } from './shadow-pair.ts'
import type { ShadowRecord } from './shadow-record.ts'

/** Above this share of busy time the main thread has no time for copies. */
const mostPressure = 0.8
/** Sequences that are copied at the same time. */
const mostSequences = 1024
/** A copy that waits or runs longer is given up. */
const longestCopyUs = 30_000_000n

type ShadowParts = {
  /** The rollout's name: it decides which sequences are copied. */
  readonly name: string
  readonly candidate: RolloutArm
  readonly infer: (request: InferenceRequest, version: ModelVersion) => void
  readonly draws: RandomDraws
  readonly pressure: () => number
  readonly comparing: CompareThread
  readonly record: ShadowRecord
  readonly evidence: Evidence
  readonly clock: Clock
  /** Null: nothing is written about single requests. */
  readonly accessLog: AccessLog | null
}

export class ShadowCopies {
  readonly #parts: ShadowParts
  readonly #step: ShadowStep
  readonly #sequences = new Set<bigint | string>()
  /** Copies that wait for stable's answer, and copies that the candidate has. */
  #waiting = 0
  #inFlight = 0
  #isClosed = false

  constructor(parts: ShadowParts, step: ShadowStep) {
    this.#parts = parts
    this.#step = step
  }

  /**
   * HOT while a step has a shadow: once per request of stable. The copy is sent after stable's answer: until then a caller
   * waits, and the copy would take time from the run that the caller waits for.
   */
  take(routed: RoutedRequest, request: InferenceRequest, areInputsKept: boolean): void {
    if (!this.#isDrawn(request)) return
    const inputs = routed.inputs
    const version = this.#parts.candidate.ready()
    const reason = version === null ? 'not_ready' : this.#obstacle(version, inputs)
    if (version === null || reason !== '') {
      this.#drop(reason, request)
      return
    }
    // Inputs in memory that is given back with stable's answer must be copied now.
    const own = areInputsKept ? [...inputs] : inputs.map(copyOf)
    const kept = this.#step.isKeepingInputs ? own : null
    const { isDecoupled } = version.signature
    const pair = new ShadowPair(request.id, kept, isDecoupled, this.#step.maxBytes, {
      onStable: () => this.#onStable(pair, request, own, version),
      onBoth: () => this.#onBoth(pair),
    })
    routed.pair = pair
    this.#waiting++
  }

  close(): void {
    this.#isClosed = true
  }

  /** Whole sequences are copied, or none of their requests. */
  #isDrawn(request: InferenceRequest): boolean {
    const { draws, name } = this.#parts
    if (!hasSequence(request)) return draws.bucket() < this.#step.share
    const { correlationId, isSequenceStart, isSequenceEnd } = request
    if (!isSequenceStart) {
      const isCopied = this.#sequences.has(correlationId)
      if (isSequenceEnd) this.#sequences.delete(correlationId)
      return isCopied
    }
    if (bucketOf(`${name}/shadow`, String(correlationId)) >= this.#step.share) return false
    if (this.#sequences.size >= mostSequences) {
      this.#parts.record.addDropped('sequences')
      return false
    }
    if (!isSequenceEnd) this.#sequences.add(correlationId)
    return true
  }

  /** '': there is none. */
  #obstacle(version: ModelVersion, inputs: readonly Tensor[]): string {
    const most = this.#mostOf(version)
    if (this.#inFlight >= most || this.#waiting >= most) return 'in_flight'
    if (version.pendingCount > most) return 'queue'
    let bytes = 0
    for (const input of inputs) bytes += input.bytes.length
    if (bytes > this.#step.maxBytes) return 'too_large'
    return this.#parts.pressure() > mostPressure ? 'pressure' : ''
  }

  #mostOf(version: ModelVersion): number {
    return this.#step.maxInFlight ?? 2 * instancesOf(version)
  }

  /** The caller has its answer next. A copy whose answer cannot be compared is not worth its run. */
  #onStable(pair: ShadowPair, request: InferenceRequest, inputs: Tensor[], version: ModelVersion): void {
    const { stable } = pair
    this.#waiting--
    if (this.#isClosed) return
    const isFull = this.#inFlight >= this.#mostOf(version)
    const reason = stable.error !== null ? 'stable_failed' : stable.isTooLarge ? 'too_large' : isFull ? 'in_flight' : ''
    if (reason !== '') {
      this.#drop(reason, request)
      return
    }
    this.#inFlight++
    setImmediate(() => this.#send(pair, request, inputs, version))
  }

  /** The rest of a sequence makes no sense without this request. */
  #drop(reason: string, request: InferenceRequest): void {
    this.#sequences.delete(request.correlationId)
    this.#parts.record.addDropped(reason)
  }

  #send(pair: ShadowPair, request: InferenceRequest, inputs: Tensor[], version: ModelVersion): void {
    const { requestedOutputs, parameters, correlationId, isSequenceStart, isSequenceEnd, caller } = request
    const lowest = version.config.dynamicBatching?.priorityLevels ?? 0n
    const copy = new InferenceRequest({
      modelName: version.name,
      modelVersion: version.version,
      id: request.id,
      inputs,
      requestedOutputs,
      parameters,
      correlationId,
      isSequenceStart,
      isSequenceEnd,
      priority: lowest,
      timeoutUs: longestCopyUs,
      caller,
      sink: (response, answered) => {
        const isRefused = response.error?.code === 'UNAVAILABLE' && answered.computeStartNs === 0
        if (response.isFinal) this.#ended(answered, isRefused)
        if (response.isFinal) this.#log(answered, response.error === null)
        if (!isRefused) pair.add('candidate', response)
        response.release()
      },
    })
    copy.isShadow = true
    // The copy becomes part of the trace of its request, which has its trace by now.
    copy.traceOrigin = request.trace === null ? null : request.trace.context
    if (copy.traceOrigin !== null) copy.arrivalStamps = []
    if (this.#isClosed) this.#inFlight--
    else this.#parts.infer(copy, version)
  }

  #ended(copy: InferenceRequest, isRefused: boolean): void {
    const { record } = this.#parts
    this.#inFlight--
    if (isRefused) this.#drop('refused', copy)
    const { computeStartNs, computeEndNs, endNs } = copy
    if (computeStartNs !== 0) record.addCost(1, ((computeEndNs === 0 ? endNs : computeEndNs) - computeStartNs) / 1e9)
  }

  /** Nobody called, so there is no address and no size: the line says what the version on trial did. */
  #log(copy: InferenceRequest, isSuccess: boolean): void {
    const { accessLog, clock, name } = this.#parts
    if (accessLog === null) return
    const { modelName, modelVersion, caller } = copy
    accessLog.write({
      protocol: 'shadow',
      method: 'COPY',
      path: `/v2/models/${encodeURIComponent(modelName)}/versions/${modelVersion}/infer`,
      status: isSuccess ? 200 : 500,
      client: '',
      caller: caller.principal,
      tenant: caller.tenant,
      bytesIn: null,
      bytesOut: null,
      totalNs: clock.nowNs() - copy.receivedNs,
      isAborted: false,
      traceparent: '',
      modelVersion,
      inference: {
        modelName,
        id: copy.id,
        traceId: copy.traceId,
        batchSize: copy.batchSize,
        responseCount: copy.responseCount,
        queueStartNs: copy.queueStartNs,
        computeStartNs: copy.computeStartNs,
        computeEndNs: copy.computeEndNs,
        watch: { variant: `${name}/shadow/${modelVersion}` },
      },
    })
  }

  #onBoth(pair: ShadowPair): void {
    const { record, comparing } = this.#parts
    if (this.#isClosed) return
    const plain = pair.plainResult()
    if (plain !== null) {
      this.#note(pair, plain)
      return
    }
    const isTaken = comparing.compare(pair.stable.outputs, pair.candidate.outputs, (result) => {
      if (result !== null) this.#note(pair, result)
      else record.addDropped('comparison')
    })
    if (!isTaken) record.addDropped('comparison')
  }

  #note(pair: ShadowPair, result: Parameters<ShadowRecord['addPair']>[1]): void {
    const { record, evidence } = this.#parts
    record.addPair(pair.requestId, result, pair.inputs)
    evidence.addPair(result.isEqual)
  }
}

/** Of an ensemble, which has none of its own, as of a model with one. */
function instancesOf({ config }: ModelVersion): number {
  let count = 0
  for (const group of config.instanceGroup) count += group.count
  return Math.max(1, count)
}
