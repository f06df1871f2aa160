// The steps of one inference, the same for every protocol:
//
//   choose the version → read the request → shared memory → Engine → answers, one or many → shared memory → write → end
//
// A front end extends InferenceExchange with methods that read a request, write an answer and write an error. The
// exchange does the rest: it announces requests that take long to read, holds regions, stamps arrivals, counts
// refusals, cancels, and sees to it that a protocol with one answer per request gets exactly one.

import type { Account } from '../access/account.ts'
import type { Caller } from '../access/caller.ts'
import { requireRight } from '../access/require-right.ts'
import type { CallFacts } from '../access/call-facts.ts'
import type { Clock } from '../base/clock.ts'
import { ServerError } from '../base/server-error.ts'
import { specimens } from '../base/specimens.ts'
import type { Engine } from '../engine/engine.ts'
import { RequestRegions, type OutputPlace } from '../engine/shared-memory/request-regions.ts'
import type { RegionReference, SharedMemoryRegistry } from '../engine/shared-memory/shared-memory-registry.ts'
import type { ChoiceWatch, RequestFacts } from '../model/choice.ts'
import type { WordedCall } from '../model/error-words.ts'
import { faultHeader, type FaultSource, type InjectedFault } from '../model/fault.ts'
import { InferenceRequest, type InferenceRequestInit } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import { loadFormatHeader, type LoadSource } from '../model/load-source.ts'
import type { ModelVersion } from '../model/model-version.ts'
import { bodyToReuse } from './body-to-reuse.ts'
import type { HeldMemory } from './held-memory.ts'
import { InferenceMeter } from './inference-meter.ts'
import type { Reading } from './sliced-reading.ts'
import { refusalAtDoor } from './turned-away.ts'
import { noOrigin, type RequestHead } from '../model/request-origin.ts'

/** The parts of the server that all exchanges share. */
export type ExchangeParts = {
  readonly engine: Engine
  readonly clock: Clock
  readonly sharedMemory: SharedMemoryRegistry
  /** `--allow-fault-injection`; absent: nobody can ask for faults. */
  readonly faults?: FaultSource | null
  /** `--orca`; null or absent: no answer tells the load of the server. */
  readonly load?: LoadSource | null
}

/** A request as the front end read it. A field that is left out has the default of InferenceRequest. */
type ReadRequest = Omit<InferenceRequestInit, 'modelName' | 'modelVersion' | 'requestedOutputs' | 'caller' | 'sink'> & {
  /** Empty or left out: all outputs of the model. */
  readonly outputs?: readonly OutputPlace[]
  /** Inputs whose bytes lie in shared memory, by index in `inputs`. The tensors in `inputs` have no bytes yet. */
  readonly sharedMemoryInputs?: ReadonlyMap<number, RegionReference>
}

/** The names of the two moments between which a request was received, as traces spell them. */
export type ArrivalNames = readonly [start: string, end: string]

/** Calls `done` exactly once, at once or later, with what is to be written in place of the answer. */
export type Preparation = (done: (error: unknown, prepared: InferenceResponse | null) => void) => void

type WaitingAnswer = { readonly response: InferenceResponse; readonly isFinal: boolean }

/** A model that does not wait while its answers are prepared is given up with more than this behind. */
const mostBehindBytes = 16 * 1024 * 1024

/** Of a body whose request is kept as a specimen. */
const mostKeptBytes = 16 * 1024

const noOutputs: readonly OutputPlace[] = []
const noPlaces: ReadonlyMap<number, RegionReference> = new Map()

/** HOT: one object per inference. */
export abstract class InferenceExchange implements RequestFacts, WordedCall {
  abstract readonly protocol: CallFacts['protocol']
  abstract readonly path: string
  abstract readonly peer: string
  readonly caller: Caller
  watch: ChoiceWatch | null = null
  protected readonly parts: ExchangeParts
  /** The client gets exactly one answer: the first answer waits until the model has ended. Set before `submit`. */
  protected answersOnce: boolean
  #version: ModelVersion | null = null
  #askedVersion = ''
  #request: InferenceRequest | null = null
  /** Null unless inputs or outputs lie in shared memory. */
  #regions: RequestRegions | null = null
  #reading: Reading | null = null
  /** Counted for what is made of the request while it is read. */
  #readingBytes = 0
  /** Null: nobody counts what the caller uses. */
  #meter: InferenceMeter | null = null
  /** 0 while nothing is traced. */
  #arrivedNs = 0
  /** The Engine was told that this request will come. */
  #isExpected = false
  /** True while the Engine takes the request over. A request that fails in this time was never executed. */
  #isSubmitting = false
  #first: InferenceResponse | null = null
  #answerCount = 0
  /** Answers behind one that is being prepared; null when none is. */
  #behind: WaitingAnswer[] | null = null
  #behindBytes = 0
  #isOverrun = false
  /** Answers that are prepared or written into shared memory right now. */
  #placingCount = 0
  #hasEnded = false
  /** What somebody asked to be done to the request; '': nothing. */
  #fault: '' | 'delay' | 'abort' = ''

  constructor(parts: ExchangeParts, caller: Caller, answersOnce: boolean) {
    this.parts = parts
    this.caller = caller
    this.answersOnce = answersOnce
  }

  get api(): 'inference' {
    return 'inference'
  }

  abstract header(name: string): string | null
  /** Left as it is by protocols that have no ids, parameters or sequences. */
  head(): RequestHead {
    return noOrigin.head()
  }

  protected abstract readonly arrivalNames: ArrivalNames
  /** Null: nothing is counted, because no client sends requests over a network. */
  protected get memory(): HeldMemory | null {
    return null
  }
  /** What the client sent, where its memory can be used again. */
  protected get receivedBody(): Buffer | null {
    return null
  }
  /** Reads the request and calls `submit`, or has it read with `readLater`. Throws ServerError. */
  protected abstract read(version: ModelVersion): void
  /** The request is read. The Engine gets it next, or once its inputs are copied from shared memory. */
  protected started?(request: InferenceRequest): void
  /** Another request answers in the place of the first one, because that one ran again on another version. */
  protected replaced?(request: InferenceRequest): void
  /** A long read has begun (true), or has ended and the Engine has the request (false). */
  protected readingChanged?(isReading: boolean): void
  /**
   * Work that an answer needs before it can be written and that must not hold others up; null when there is none. Answers
   * that come meanwhile wait for their turn. HOT.
   */
  protected prepare?(response: InferenceResponse): Preparation | null
  /** All answers that waited for a preparation are written: the model may go on. */
  protected caughtUp(): void {
    this.setPaused(false)
  }
  /** Answers came faster than they could be prepared, and the model did not wait. The request is cancelled. */
  protected overrun?(waitingBytes: number): void
  /** Takes the answer over, and releases its memory once its bytes are written. May throw: then `fail` follows. */
  protected abstract write(response: InferenceResponse, isFinal: boolean): void
  /** Writes an error in place of an answer. Does not throw. */
  protected abstract fail(error: ServerError, isFinal: boolean): void
  /** Writes the error of a request that never reached the Engine. Does not throw. */
  protected abstract refused(error: ServerError): void
  /** The last answer is written, or handed to the code that writes it. */
  protected ended?(): void

  /** Monotonic: when the client stops waiting; 0: it did not say. */
  protected get deadlineNs(): number {
    return 0
  }

  /** Null before the version is chosen. */
  protected get version(): ModelVersion {
    return this.#version as ModelVersion
  }

  /** The model that the client asked for; a rollout may have it served by another one. */
  protected get modelName(): string {
    return this.watch === null ? this.version.name : this.watch.modelName
  }

  /** What the answer says about itself, as names and values of headers; null: nothing. HOT. */
  protected get marks(): readonly string[] | null {
    const marks = this.watch === null ? null : this.watch.marks
    return this.#fault === '' ? marks : [...(marks ?? []), faultHeader, this.#fault]
  }

  /** The load of the server, where the client or the operator asks for it: a header by name and value. HOT. */
  protected loadHeader(format: string): readonly string[] | null {
    const { load } = this.parts
    if (load === null || load === undefined) return null
    if (load.isTold) return load.header(format, this.caller)
    const asked = this.header(loadFormatHeader)
    return asked === null ? null : load.header(asked, this.caller)
  }

  /** Null before the request is read. */
  get request(): InferenceRequest | null {
    return this.#request
  }

  /** The version as the client wrote it. */
  protected get askedVersion(): string {
    return this.#askedVersion
  }

  /** Whether an error came before the request reached its model. An ensemble runs its first steps at once, so it is reached when it is admitted. */
  protected get isUnscheduled(): boolean {
    const request = this.#request
    if (request === null || request.stage === 'RECEIVED') return true
    const isEnsemble = this.version.config.ensembleScheduling !== null
    return request.stage === 'ADMITTED' && this.#isSubmitting && !(isEnsemble && request.queueStartNs !== 0)
  }

  /** Chooses the version and starts to read the request. Every request is answered or refused. */
  begin(modelName: string, modelVersion: string): void {
    const { engine, clock } = this.parts
    try {
      if (this.caller.rights !== null) requireRight(this.caller, 'inference', modelName)
      const version = engine.choose(modelName, modelVersion, this)
      this.#version = version
      this.#askedVersion = modelVersion
      if (engine.isTracing) this.#arrivedNs = clock.nowNs()
      const refusal = refusalAtDoor(engine, version, this.caller.tenant)
      if (refusal !== null) {
        engine.isTurningAway = true
        this.refused(refusal)
        return
      }
      this.read(version)
    } catch (reason) {
      this.refuse(reason)
    }
  }

  /** The client no longer waits. */
  cancel(): void {
    const reading = this.#reading
    this.#reading = null
    reading?.cancel()
    this.#request?.cancel()
  }

  /** The client reads more slowly than the model answers, or has caught up again. */
  setPaused(isPaused: boolean): void {
    this.#request?.setPaused(isPaused)
  }

  /** The error in the words that clients get. */
  protected told(reason: unknown): ServerError {
    return this.parts.engine.wording.tell(reason, this)
  }

  /** Null before the version is chosen. */
  get signature(): WordedCall['signature'] {
    return this.#version?.signature ?? null
  }

  /** Refuses and counts a request that does not reach the Engine. */
  protected refuse(reason: unknown): void {
    const error = this.told(reason)
    this.parts.engine.refusals.count(error)
    this.refused(error)
  }

  /** Reads the request while others are served. A server that begins to exit meanwhile waits for this request. */
  protected readLater<T>(
    start: (done: (error: unknown, value: T | null) => void) => Reading,
    then: (value: T) => void,
  ): void {
    const job = start((error, value) => {
      this.#reading = null
      try {
        if (value === null) throw error
        then(value)
      } catch (reason) {
        this.refuse(reason)
      }
      passedOn()
      this.readingChanged?.(false)
    })
    const passedOn = this.#expect()
    this.readingChanged?.(true)
    this.#reading = {
      cancel: () => {
        job.cancel()
        passedOn()
      },
    }
  }

  /** Hands the request to the Engine. Throws ServerError when the request names a region that does not exist. */
  protected submit(read: ReadRequest): void {
    const { outputs = noOutputs } = read
    // What was read elsewhere or in steps may have become larger than its text: eight bytes for each digit.
    if (this.#isExpected) this.#reserveInputs(read.inputs)
    const places = read.sharedMemoryInputs ?? noPlaces
    const reader = places.size === 0 ? null : this.#regionReader(read.inputs)
    const regions = RequestRegions.of(this.parts.sharedMemory, places, outputs, reader)
    if (this.caller.account !== null) this.#open(this.caller.account, read.inputs, regions)
    const requestedOutputs: string[] = []
    for (let i = 0; i < outputs.length; i++) requestedOutputs.push((outputs[i] as OutputPlace).name)
    const request = new InferenceRequest({
      modelName: this.modelName,
      modelVersion: this.#askedVersion,
      id: read.id,
      inputs: read.inputs,
      requestedOutputs,
      parameters: read.parameters,
      correlationId: read.correlationId,
      isSequenceStart: read.isSequenceStart,
      isSequenceEnd: read.isSequenceEnd,
      priority: read.priority,
      timeoutUs: read.timeoutUs,
      caller: this.caller,
      sink: this.#onAnswer,
    })
    request.origin = this
    request.deadlineNs = this.deadlineNs
    request.watch = this.watch
    this.#request = request
    this.#regions = regions
    this.started?.(request)
    if (regions === null) this.#infer(request)
    else this.#readRegions(request, regions)
  }

  /** Bytes of the body that nobody could count before it was read. */
  protected get uncountedBytes(): number {
    return 0
  }

  /** True: the request is one message of a stream, which Admission has not seen. */
  protected get isMessageOfStream(): boolean {
    return false
  }

  /** Counts the inference against the limits of its caller. Throws ServerError when one is reached. */
  #open(account: Account, inputs: ReadRequest['inputs'], regions: RequestRegions | null): void {
    const rows = this.version.config.maxBatchSize > 0 ? (inputs[0]?.shape[0] ?? 1) : 1
    const refusal = account.begin(rows, this.uncountedBytes, this.isMessageOfStream)
    if (refusal !== null) {
      regions?.release()
      throw refusal
    }
    this.#meter = new InferenceMeter(account, this.version.name, rows)
  }

  #regionReader(inputs: ReadRequest['inputs']): Parameters<typeof RequestRegions.of>[3] {
    return { modelName: this.version.name, inputs, reserve: (bytes) => this.reserve(bytes) }
  }

  /** In place of what was counted for them while they were made. */
  #reserveInputs(inputs: ReadRequest['inputs']): void {
    this.memory?.release(this.#readingBytes)
    let bytes = 0
    for (const input of inputs) bytes += input.bytes.length
    this.reserve(bytes)
  }

  /** Counts memory that the server takes for the request. Throws ServerError when there is no room for it. */
  protected reserve(bytes: number): void {
    const { memory } = this
    if (memory?.reserve(bytes) === false) throw ServerError.withoutStack('UNAVAILABLE', memory.refuse(bytes))
    this.#readingBytes += bytes
  }

  #expect(): () => void {
    this.#isExpected = true
    return this.parts.engine.expectRequest()
  }

  #readRegions(request: InferenceRequest, regions: RequestRegions): void {
    const passedOn = this.#expect()
    this.readingChanged?.(true)
    // A trace shows tensors and a rollout copies them, so both need them in memory of the host.
    const isRead = this.#arrivedNs !== 0 || this.watch !== null
    const memory = isRead ? null : (this.version.deviceMemory ?? null)
    if (memory !== null) request.outputPlaces = regions.placesOn(memory.deviceId)
    const onRead = (error: ServerError | null): void => {
      if (memory !== null && regions.hasDeviceInputs) request.inputDevice = memory.deviceId
      if (request.isCancelled) request.failCancelled()
      else if (error === null) this.#infer(request)
      else {
        this.parts.engine.refusals.count(error)
        request.fail(error)
      }
      passedOn()
      this.readingChanged?.(false)
    }
    regions.readInputs(request.inputs, onRead, memory?.hasInputs === true ? memory.deviceId : null)
  }

  #infer(request: InferenceRequest): void {
    const { faults = null } = this.parts
    const fault = faults === null ? null : faults.draw(this, this.modelName, this.watch?.armName ?? '')
    if (fault === null) this.#handOver(request)
    else this.#suffer(request, fault)
  }

  /** Waits before the model gets the request, or fails the request in the model's place. */
  #suffer(request: InferenceRequest, fault: InjectedFault): void {
    const { engine, clock } = this.parts
    this.#fault = fault.abort === null ? 'delay' : 'abort'
    if (!fault.isJudged) this.watch?.exclude()
    if (request.receivedNs === 0) request.receivedNs = clock.nowNs()
    if (fault.delayNs === 0) {
      this.#goOn(request, fault)
      return
    }
    this.#isExpected = true
    const passedOn = engine.expectRequest()
    const stop = clock.after(fault.delayNs, () => {
      request.handOver(null)
      this.#goOn(request, fault)
      passedOn()
    })
    request.handOver({
      onCancel: () => {
        stop()
        request.failCancelled()
        passedOn()
      },
    })
  }

  #goOn(request: InferenceRequest, { abort, isJudged }: InjectedFault): void {
    if (abort === null) {
      this.#handOver(request)
      return
    }
    // Clients see the error. Only where a rollback is rehearsed the rollout treats it as the model's own.
    if (isJudged) this.watch?.begun(request, this.#regions === null)
    else request.watch = null
    request.fail(abort)
  }

  #handOver(request: InferenceRequest): void {
    const { engine, clock } = this.parts
    if (this.watch !== null) {
      this.watch.begun(request, this.#regions === null)
      this.#version = this.watch.version
    }
    if (this.#arrivedNs !== 0) {
      const [start, end] = this.arrivalNames
      request.arrivalStamps = [
        [start, this.#arrivedNs],
        [end, clock.nowNs()],
      ]
      const traceparent = this.header('traceparent')
      if (traceparent !== null) {
        request.traceOrigin = { traceparent, tracestate: this.header('tracestate') ?? '' }
      }
    }
    this.#isSubmitting = true
    engine.infer(request, this.version, this.#isExpected)
    this.#isSubmitting = false
    if (this.#regions === null) this.#keepSpecimen()
  }

  /** A small request stays until the next one comes. HOT. */
  #keepSpecimen(): void {
    const body = this.receivedBody
    if (body === null || body.length > mostKeptBytes) return
    if (this.protocol === 'grpc') specimens.grpc = this
    else specimens.http = this
  }

  /** The sink of the request. It does not throw, and it releases also the responses that the client does not get. */
  readonly #onAnswer = (response: InferenceResponse, request: InferenceRequest): void => {
    if (request !== this.#request) this.#replace(request)
    if (this.#meter !== null) this.#meter.note(response, request)
    if (!this.answersOnce) this.#give(response, response.isFinal)
    else {
      if (!response.isFlagOnly) {
        this.#answerCount++
        if (this.#answerCount === 1) this.#first = response
        else response.release()
      }
      if (response.isFinal) this.#conclude(response)
    }
    if (!response.isFinal) return
    this.#hasEnded = true
    this.#endIfDone()
  }

  /** The request ran again on another version, and that one answers. */
  #replace(request: InferenceRequest): void {
    this.#request = request
    this.#version = this.watch?.version ?? this.#version
    this.replaced?.(request)
  }

  /** The error of a single answer; null when the answer is good. `first` is null for a model that gave no answer. */
  protected errorOf(final: InferenceResponse, first: InferenceResponse | null, count: number): ServerError | null {
    return final.error ?? first?.error ?? (count === 1 ? null : notASingleAnswer(count))
  }

  #conclude(final: InferenceResponse): void {
    const first = this.#first
    this.#first = null
    const error = this.errorOf(final, first, this.#answerCount)
    if (error === null) this.#give(first ?? final, true)
    else {
      first?.release()
      this.fail(this.told(error), true)
    }
  }

  #give(response: InferenceResponse, isFinal: boolean): void {
    if (this.#behind !== null) this.#wait(this.#behind, response, isFinal)
    else if (response.error !== null) this.fail(this.told(response.error), isFinal)
    else if (this.#regions !== null && !response.isFlagOnly) this.#place(response, isFinal, this.#regions)
    else this.#finish(response, isFinal)
  }

  #finish(response: InferenceResponse, isFinal: boolean): void {
    const preparation = response.isFlagOnly ? null : (this.prepare?.(response) ?? null)
    if (preparation === null) this.#write(response, isFinal)
    else this.#prepare(preparation, response, isFinal)
  }

  /** The model was asked to wait. One that does not wait is given up. */
  #wait(behind: WaitingAnswer[], response: InferenceResponse, isFinal: boolean): void {
    behind.push({ response, isFinal })
    // An answer takes memory even when its outputs have no bytes.
    this.#behindBytes += 256
    for (const output of response.outputs) this.#behindBytes += output.bytes.length
    if (this.#behindBytes <= mostBehindBytes || this.#isOverrun) return
    this.#isOverrun = true
    this.cancel()
    this.overrun?.(this.#behindBytes)
  }

  #prepare(preparation: Preparation, response: InferenceResponse, isFinal: boolean): void {
    if (!this.answersOnce) this.setPaused(true)
    const trace = this.#request?.trace ?? null
    trace?.retain()
    this.#placingCount++
    this.#behind = []
    this.#behindBytes = 0
    preparation((error, prepared) => {
      this.#placingCount--
      if (prepared !== null) this.#write(prepared, isFinal)
      else {
        response.release()
        this.fail(this.told(error), isFinal)
      }
      trace?.release()
      const behind = this.#behind ?? []
      this.#behind = null
      // One of these answers may have to be prepared, too: then those behind it wait again.
      for (const next of behind) {
        if (!this.#isOverrun) this.#give(next.response, next.isFinal)
        else next.response.release()
      }
      if (!this.answersOnce && this.#behind === null) this.caughtUp()
      this.#endIfDone()
    })
  }

  /** Copies the outputs into the client's regions before the answer is written. The trace ends after the copy. */
  #place(response: InferenceResponse, isFinal: boolean, regions: RequestRegions): void {
    const trace = this.#request?.trace ?? null
    trace?.retain()
    this.#placingCount++
    regions.writeOutputs(response.outputs, (error) => {
      this.#placingCount--
      if (error === null) this.#finish(response, isFinal)
      else {
        response.release()
        this.fail(this.told(error), isFinal)
      }
      trace?.release()
      this.#endIfDone()
    })
  }

  #write(response: InferenceResponse, isFinal: boolean): void {
    // A trace shows tensors, and a rollout copies them.
    const isFree = isFinal && this.answersOnce && this.#arrivedNs === 0 && this.watch === null
    const body = isFree ? bodyToReuse(this.receivedBody, this.version, response) : null
    const memory = body === null ? null : this.memory
    try {
      this.write(response, isFinal)
    } catch (reason) {
      response.release()
      this.fail(this.told(reason), isFinal)
      return
    }
    if (body !== null) memory?.reuse(body)
  }

  #endIfDone(): void {
    if (!this.#hasEnded || this.#placingCount > 0) return
    this.#hasEnded = false
    this.#regions?.release()
    this.ended?.()
  }
}

const notASingleAnswer = (count: number): ServerError =>
  new ServerError('INTERNAL', `expected a single response, got ${count}`)
