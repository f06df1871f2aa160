import type { ServerError } from '../base/server-error.ts'
import { specimens } from '../base/specimens.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Parameters } from './parameters.ts'

const noOutputs: readonly Tensor[] = []

/**
 * One answer to a request. A request gets one or many answers; exactly one of them is final.
 * Output bytes may lie in native or shared memory: the receiver of a response calls `release` once the bytes are
 * written or copied, and must not read the bytes afterwards.
 */
export class InferenceResponse {
  readonly outputs: readonly Tensor[]
  readonly parameters: Parameters | null
  readonly error: ServerError | null
  readonly isFinal: boolean
  /** True for the bare end of a decoupled model: the response carries no result, not even an empty one. */
  readonly isFlagOnly: boolean
  /** True for an error that the model's own code answered with. Statistics count such an execution as done. */
  readonly isAnswerOfModel: boolean
  #release: (() => void) | null

  private constructor(
    outputs: readonly Tensor[],
    parameters: Parameters | null,
    error: ServerError | null,
    isFinal: boolean,
    isFlagOnly: boolean,
    release: (() => void) | null,
    isAnswerOfModel = false,
  ) {
    this.outputs = outputs
    this.parameters = parameters
    this.error = error
    this.isFinal = isFinal
    this.isFlagOnly = isFlagOnly
    this.isAnswerOfModel = isAnswerOfModel
    this.#release = release
  }

  static of(
    outputs: readonly Tensor[],
    options: { parameters?: Parameters | null; isFinal?: boolean; release?: (() => void) | null } = {},
  ): InferenceResponse {
    const { parameters = null, isFinal = true, release = null } = options
    return new InferenceResponse(outputs, parameters, null, isFinal, false, release)
  }

  static failure(error: ServerError, isFinal = true): InferenceResponse {
    return new InferenceResponse(noOutputs, null, error, isFinal, false, null)
  }

  /** An error that the model's own code answered with, as a Python model's `InferenceResponse(error=…)`. */
  static errorAnswer(error: ServerError, isFinal = true): InferenceResponse {
    return new InferenceResponse(noOutputs, null, error, isFinal, false, null, true)
  }

  static finalFlag(): InferenceResponse {
    return new InferenceResponse(noOutputs, null, null, true, true, null)
  }

  /** The same answer with other outputs (reshaped, renamed). The new response owns the memory. */
  withOutputs(outputs: readonly Tensor[]): InferenceResponse {
    const release = this.#release
    this.#release = null
    const { parameters, error, isFinal, isFlagOnly, isAnswerOfModel } = this
    return new InferenceResponse(outputs, parameters, error, isFinal, isFlagOnly, release, isAnswerOfModel)
  }

  /** Gives the outputs' memory back. Twice is fine. */
  release(): void {
    const release = this.#release
    if (release === null) return
    this.#release = null
    release()
  }
}

specimens.add(() => InferenceResponse.finalFlag())
