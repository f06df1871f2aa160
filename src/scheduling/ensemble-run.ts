// One request on its way through the steps of an ensemble.

import type { Clock } from '../base/clock.ts'
import type { Placed } from '../base/placed-set.ts'
import { RingQueue } from '../base/ring-queue.ts'
import { ServerError } from '../base/server-error.ts'
import { Batch } from '../model/batch.ts'
import type { EnsemblePlan, EnsembleSelection, EnsembleStep, StepInput } from '../config/ensemble-plan.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import type { Parameters } from '../model/parameters.ts'
import { InferenceResponse } from '../model/inference-response.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { EnsembleGate } from './ensemble-gate.ts'
import { EnsembleScope } from './ensemble-scope.ts'

export type EnsembleContext = {
  readonly clock: Clock
  readonly plan: EnsemblePlan
  readonly signature: ModelSignature
  /** One gate per step. */
  readonly gates: readonly EnsembleGate[]
  /** Runs the request of a step on the model that it names. The request's sink always gets a final response. */
  readonly infer: (request: InferenceRequest) => void
  /** Called when the request and every step that was started for it have ended. */
  readonly finished: (run: EnsembleRun) => void
}

export class EnsembleRun implements Placed {
  /** The index among the scheduler's runs. */
  place = -1
  readonly #context: EnsembleContext
  readonly #request: InferenceRequest
  readonly #selection: EnsembleSelection
  readonly #root: EnsembleScope
  /** Scopes with steps not yet started, the root among them. */
  readonly #live = new Set<EnsembleScope>()
  /** Scopes that give one response each, in the order in which they were opened. */
  readonly #answering = new RingQueue<EnsembleScope>()
  readonly #outstanding = new Set<InferenceRequest>()
  /** Steps that wait at a gate. */
  #gatedCount = 0
  #isEnded = false
  #isFinished = false
  // Triton's times of an ensemble are the sums of the times of its steps.
  #queueNs = 0
  #inputNs = 0
  #inferNs = 0
  #outputNs = 0

  constructor(context: EnsembleContext, request: InferenceRequest) {
    this.#context = context
    this.#request = request
    this.#selection = context.plan.select(request.requestedOutputs)
    this.#root = this.#openScope(null, -1)
    for (const { name } of context.signature.inputs) this.#root.tensors.set(name, null)
    for (const tensor of request.inputs) this.#root.tensors.set(tensor.name, tensor)
  }

  start(): void {
    this.#request.queueStartNs = this.#context.clock.nowNs()
    this.#request.handOver(this)
    this.#advance(this.#root)
    this.#answer()
    this.#settle()
  }

  onCancel(): void {
    for (const step of this.#outstanding) step.cancel()
    this.#settle()
  }

  onFlowChange({ isPaused }: InferenceRequest): void {
    for (const step of this.#outstanding) step.setPaused(isPaused)
  }

  /** Ends the request now; later answers of its steps are dropped. */
  fail(error: ServerError): void {
    if (this.#isEnded) return
    this.#isEnded = true
    for (const scope of this.#live) this.#closeScope(scope)
    for (let scope = this.#answering.take(); scope !== undefined; scope = this.#answering.take()) scope.drop()
    this.#request.handOver(null)
    if (error.code === 'CANCELLED' && this.#request.isCancelled) this.#request.failCancelled()
    else this.#request.fail(error)
    for (const step of this.#outstanding) step.cancel()
    this.#settle()
  }

  /** Opens the scope of a response of step `origin`; -1: the scope of the whole request. */
  #openScope(parent: EnsembleScope | null, origin: number): EnsembleScope {
    const scope = new EnsembleScope(
      parent,
      this.#selection.steps.filter((step) => step.origin === origin),
    )
    this.#live.add(scope)
    if (this.#selection.origin === origin) {
      scope.retain()
      this.#answering.push(scope)
    }
    return scope
  }

  #closeScope(scope: EnsembleScope): void {
    if (this.#live.delete(scope)) scope.drop()
  }

  #advance(scope: EnsembleScope): void {
    while (!this.#isEnded && !this.#request.isCancelled) {
      const step = scope.takeReady()
      if (step === null) break
      // The step holds a reference, because the scope may be closed below.
      scope.retain()
      this.#gatedCount++
      const gate = this.#context.gates[step.index] as EnsembleGate
      gate.enter(() => {
        this.#gatedCount--
        if (!this.#isEnded && !this.#request.isCancelled) {
          this.#startStep(step, scope)
          return true
        }
        scope.drop()
        this.#settle()
        return false
      })
    }
    if (scope.waiting.length === 0) this.#closeScope(scope)
  }

  #startStep(step: EnsembleStep, scope: EnsembleScope): void {
    const inputs: Tensor[] = []
    for (const input of step.inputs) {
      const tensor = scope.find(input.tensor) ?? null
      if (tensor !== null) inputs.push(inputTensor(tensor, input))
    }
    const { id, parameters, correlationId, isSequenceStart, isSequenceEnd, priority, timeoutUs, caller } = this.#request
    const request = new InferenceRequest({
      modelName: step.modelName,
      modelVersion: step.modelVersion,
      id,
      inputs,
      requestedOutputs: step.outputs
        .filter(({ tensor }) => this.#selection.tensors.has(tensor))
        .map(({ name }) => name),
      parameters,
      correlationId,
      isSequenceStart,
      isSequenceEnd,
      priority,
      timeoutUs,
      caller,
      sink: (response, answered) => {
        // Where the step ran again on another version, another request answers.
        if (response.isFinal) this.#outstanding.delete(request)
        this.#receive(response, answered, step, scope)
      },
    })
    request.origin = this.#request.origin
    request.isInner = true
    request.isShadow = this.#request.isShadow
    this.#outstanding.add(request)
    request.setPaused(this.#request.isPaused)
    this.#request.trace?.beginChild(request)
    this.#context.infer(request)
  }

  // HOT: once per response of a step. 0 copies.
  #receive(response: InferenceResponse, request: InferenceRequest, step: EnsembleStep, scope: EnsembleScope): void {
    let target: EnsembleScope | null = null
    if (this.#isEnded || response.error !== null) response.release()
    else if (!step.isDecoupled || !response.isFlagOnly) target = this.#keep(response, step, scope)
    if (response.isFinal) {
      this.#addTimes(request)
      scope.drop()
      ;(this.#context.gates[step.index] as EnsembleGate).leave()
    }
    if (response.error !== null) this.fail(this.#stepError(response.error))
    if (target !== null) this.#advance(target)
    // Responses of a decoupled step may wait for a tensor of the whole request.
    if (target === this.#root) for (const waiting of this.#live) this.#advance(waiting)
    this.#answer()
    this.#settle()
  }

  #keep(response: InferenceResponse, step: EnsembleStep, scope: EnsembleScope): EnsembleScope {
    const target = step.isDecoupled ? this.#openScope(scope, step.index) : scope
    target.hold(response)
    for (const { name, tensor } of step.outputs) {
      const found = response.outputs.find((output) => output.name === name) ?? null
      if (this.#selection.tensors.has(tensor)) target.tensors.set(tensor, found)
    }
    return target
  }

  /** Sends the responses that are complete, in order. */
  #answer(): void {
    while (!this.#isEnded) {
      const scope = this.#answering.peek()
      if (scope === undefined || !scope.hasAll(this.#selection.outputs)) return
      this.#answering.take()
      this.#send(scope)
    }
  }

  #send(scope: EnsembleScope): void {
    const { signature } = this.#context
    const outputs: Tensor[] = []
    for (const name of this.#selection.outputs) {
      const tensor = scope.find(name) ?? null
      const spec = signature.outputByName.get(name)
      if (tensor === null || spec === undefined) continue
      const rank = (spec.reshape ?? spec.dims).length + (signature.isBatching ? 1 : 0)
      outputs.push(inputTensor(tensor, { name, tensor: name, rank, isBatching: signature.isBatching }))
    }
    const isFinal = this.#selection.origin < 0 || (this.#isIdle && this.#answering.size === 0)
    const isTold = this.#context.plan.isLikeTriton || isOfSequence(this.#request)
    const parameters = outputs.length === 0 || !isTold ? null : sequenceParameters(this.#request)
    if (isFinal) this.#end()
    this.#request.respond(InferenceResponse.of(outputs, { parameters, isFinal, release: () => scope.drop() }))
    if (isFinal) this.#tellExecuted()
  }

  get #isIdle(): boolean {
    return this.#outstanding.size === 0 && this.#gatedCount === 0 && this.#live.size === 0
  }

  /** When no step is under way any more, the request must end. */
  #settle(): void {
    if (this.#outstanding.size > 0) return
    if (!this.#isEnded) {
      if (this.#request.isCancelled) this.fail(ServerError.withoutStack('CANCELLED', ''))
      else if (this.#gatedCount > 0) return
      else if (this.#selection.origin >= 0 && this.#live.size === 0 && this.#answering.size === 0) {
        this.#end()
        this.#request.respond(InferenceResponse.finalFlag())
        this.#tellExecuted()
      } else this.fail(this.#deadlock())
    }
    if (this.#isFinished || this.#gatedCount > 0) return
    this.#isFinished = true
    this.#context.finished(this)
  }

  #end(): void {
    this.#isEnded = true
    for (const scope of this.#live) this.#closeScope(scope)
    const request = this.#request
    request.computeStartNs = request.queueStartNs + this.#queueNs
    request.computeInputEndNs = request.computeStartNs + this.#inputNs
    request.computeOutputStartNs = request.computeInputEndNs + this.#inferNs
    request.computeEndNs = request.computeOutputStartNs + this.#outputNs
  }

  #tellExecuted(): void {
    new Batch([this.#request], Math.max(1, this.#request.batchSize), () => undefined).executed()
  }

  #addTimes({
    queueStartNs,
    computeStartNs,
    computeInputEndNs,
    computeOutputStartNs,
    computeEndNs,
  }: InferenceRequest): void {
    if (computeStartNs === 0 || computeEndNs === 0) return
    this.#queueNs += computeStartNs - queueStartNs
    this.#inputNs += computeInputEndNs - computeStartNs
    this.#inferNs += computeOutputStartNs - computeInputEndNs
    this.#outputNs += computeEndNs - computeOutputStartNs
  }

  #stepError({ code, message }: ServerError): ServerError {
    if (code === 'CANCELLED' && this.#request.isCancelled) return ServerError.withoutStack(code, message)
    return ServerError.withoutStack(code, `in ensemble '${this.#context.plan.name}', ${message}`)
  }

  #deadlock(): ServerError {
    return ServerError.withoutStack(
      'INVALID_ARG',
      `in ensemble '${this.#context.plan.name}', ${this.#request.errorPrefix}unexpected deadlock, at least one output is ` +
        'not set while no more ensemble steps can be made',
    )
  }
}

/** A view with the name that the step uses. When only one of the two models batches, one row is one tensor. */
function inputTensor(tensor: Tensor, { name, rank, isBatching }: StepInput): Tensor {
  const { shape } = tensor
  if (isBatching && shape.length === rank - 1) return new Tensor(name, tensor.dataType, [1, ...shape], tensor.bytes)
  if (!isBatching && shape.length === rank + 1 && shape[0] === 1) {
    return new Tensor(name, tensor.dataType, shape.slice(1), tensor.bytes)
  }
  return tensor.name === name ? tensor : new Tensor(name, tensor.dataType, shape, tensor.bytes)
}

const isOfSequence = ({ correlationId }: InferenceRequest): boolean => correlationId !== 0n && correlationId !== ''

/** As in Triton, an answer carries the id of its sequence as a signed number; in Triton also without a sequence. */
function sequenceParameters({ correlationId, isSequenceStart, isSequenceEnd }: InferenceRequest): Parameters {
  return new Map<string, string | bigint | boolean>([
    ['sequence_id', typeof correlationId === 'string' ? correlationId : BigInt.asIntN(64, correlationId)],
    ['sequence_start', isSequenceStart],
    ['sequence_end', isSequenceEnd],
  ])
}
