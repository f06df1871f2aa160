import type { Cancel, Clock } from '../../base/clock.ts'
import type { Instance, InstanceSpec } from '../../model/backend.ts'
import type { Batch } from '../../model/batch.ts'
import type { InferenceRequest, RequestHolder } from '../../model/inference-request.ts'
import type { Parameters } from '../../model/parameters.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { InputSpec, ModelSignature, OutputSpec } from '../../config/model-signature.ts'
import { elementBytes } from '../../tensor/data-type.ts'
import { elementCount } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { IdentitySettings } from './identity-settings.ts'

const exampleParameters: Parameters = new Map<string, string | bigint | boolean | number>([
  ['param0', 'an example string parameter'],
  ['param1', 42n],
  ['param2', false],
  ['param3', 123.123],
])

type Pair = { readonly output: OutputSpec; readonly input: InputSpec }

export class IdentityInstance implements Instance {
  readonly name: string
  readonly isReady = true
  readonly #clock: Clock
  readonly #delayNs: number
  readonly #parameters: Parameters | null
  readonly #isBatching: boolean
  readonly #pairs: readonly Pair[]
  readonly #countInputBytes: (bytes: number) => void
  /** The input bytes of the batch that is being answered. */
  #inputBytes = 0
  #pending: { batch: Batch; cancelWait: Cancel } | null = null

  constructor(
    dependencies: { clock: Clock; countInputBytes: (bytes: number) => void },
    spec: InstanceSpec,
    signature: ModelSignature,
    settings: IdentitySettings,
  ) {
    this.name = spec.name
    this.#clock = dependencies.clock
    this.#countInputBytes = dependencies.countInputBytes
    // Instance 0 waits for the delay, instance n for delay × multiplier × n, so that instances differ in speed.
    const factor = Math.max(settings.instanceWiseDelayMultiplier * spec.index, 1)
    this.#delayNs = settings.executeDelayMs * factor * 1e6
    this.#parameters = settings.hasResponseParameters ? exampleParameters : null
    this.#isBatching = signature.isBatching
    this.#pairs = pairTensors(signature)
  }

  execute(batch: Batch): void {
    const startNs = batch.startNs(this.#clock)
    for (const request of batch.requests) {
      request.computeStartNs = startNs
      request.computeInputEndNs = startNs
    }
    if (this.#delayNs === 0) {
      this.#finish(batch)
      return
    }
    for (const request of batch.requests) request.handOver(endsAtOnce)
    const cancelWait = this.#clock.after(this.#delayNs, () => {
      this.#pending = null
      this.#finish(batch)
    })
    this.#pending = { batch, cancelWait }
  }

  /** Answers a delayed batch now, so that `close` never waits. */
  close(): Promise<void> {
    const pending = this.#pending
    if (pending !== null) {
      this.#pending = null
      pending.cancelWait()
      this.#finish(pending.batch)
    }
    return Promise.resolve()
  }

  #finish(batch: Batch): void {
    const endNs = this.#clock.nowNs()
    for (const request of batch.requests) {
      if (request.isEnded) continue
      request.computeOutputStartNs = endNs
      request.computeEndNs = endNs
      if (request.isCancelled) request.failCancelled()
      else request.respond(InferenceResponse.of(this.#outputs(request), { parameters: this.#parameters }))
    }
    this.#countInputBytes(this.#inputBytes)
    this.#inputBytes = 0
    batch.executed()
  }

  // HOT: once per request. One Tensor per output, no copies: an output is the input's bytes under another name.
  #outputs(request: InferenceRequest): Tensor[] {
    const outputs: Tensor[] = []
    const requested = request.requestedOutputs
    for (const { output, input } of this.#pairs) {
      if (requested.length > 0 && !requested.includes(output.name)) continue
      const tensor = request.inputs.find((candidate) => candidate.name === input.name)
      if (tensor === undefined) outputs.push(this.#zeros(output.name, input, request.batchSize))
      else {
        this.#inputBytes += tensor.bytes.length
        outputs.push(new Tensor(output.name, tensor.dataType, tensor.shape, tensor.bytes))
      }
    }
    return outputs
  }

  /** Triton's answer for an optional input that the request left out. */
  #zeros(name: string, input: InputSpec, batchSize: number): Tensor {
    // An open dimension of an input that was left out has no elements.
    const dims = (input.reshape ?? input.dims).map((size) => Math.max(size, 0))
    const shape = this.#isBatching ? [batchSize, ...dims] : dims
    // An empty BYTES element consists of its four bytes of length.
    const size = input.dataType === 'BYTES' ? 4 : elementBytes[input.dataType]
    return new Tensor(name, input.dataType, shape, new Uint8Array(elementCount(shape) * size))
  }
}

const endsAtOnce: RequestHolder = { onCancel: (request) => request.failCancelled() }

/** OUTPUTn gets the bytes of INPUTn; with other names the i-th output gets those of the i-th input. */
function pairTensors(signature: ModelSignature): Pair[] {
  const pairs: Pair[] = []
  for (const output of signature.outputs) {
    const namesake = output.name.startsWith('OUTPUT') ? `INPUT${output.name.slice('OUTPUT'.length)}` : output.name
    const input = signature.inputByName.get(namesake) ?? signature.inputs[output.index]
    if (input !== undefined) pairs.push({ output, input })
  }
  return pairs
}
