import type { ModelSignature } from '../../config/model-signature.ts'
import { noCall, type ErrorWording } from '../../model/error-wording.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { RefusalCounts } from '../../model/refusal-counts.ts'
import { reshapeInputs } from '../../model/reshape.ts'
import { isLongToValidate, validateInSteps, validateRequest } from '../../model/validate-request.ts'
import type { ExpectedRequests } from './expected-requests.ts'

/** Where a request goes that fits the signature. */
export interface CheckedRequests {
  readonly signature: ModelSignature
  schedule(request: InferenceRequest): void
}

/** Stands before the schedulers of all versions: a request that does not fit the signature of its version ends here. */
export class RequestCheck {
  readonly #refusals: RefusalCounts
  readonly #expected: ExpectedRequests
  readonly #wording: ErrorWording

  constructor(refusals: RefusalCounts, expected: ExpectedRequests, wording: ErrorWording) {
    this.#refusals = refusals
    this.#wording = wording
    this.#expected = expected
  }

  /** Takes the request over: it goes to `version`, or is refused. HOT. */
  pass(request: InferenceRequest, version: CheckedRequests): void {
    try {
      const { signature } = version
      if (isLongToValidate(request)) {
        this.#passInSteps(request, version, validateInSteps(request, signature), this.#expected.expect())
        return
      }
      validateRequest(request, signature)
      reshapeInputs(request, signature)
    } catch (reason) {
      this.refuse(request, reason, version.signature)
      return
    }
    version.schedule(request)
  }

  /** No model takes the request. */
  refuse(request: InferenceRequest, reason: unknown, signature: ModelSignature | null = null): void {
    const error = this.#wording.tell(reason, { ...noCall, signature })
    this.#refusals.count(error)
    request.fail(error)
  }

  /** For inputs whose validation would hold the loop up: other requests are served between the steps. */
  #passInSteps(
    request: InferenceRequest,
    version: CheckedRequests,
    steps: Iterator<void, void>,
    passedOn: () => void,
  ): void {
    try {
      if (request.isCancelled) request.failCancelled()
      else if (steps.next().done !== true) {
        setImmediate(() => this.#passInSteps(request, version, steps, passedOn))
        return
      } else {
        reshapeInputs(request, version.signature)
        version.schedule(request)
      }
    } catch (reason) {
      this.refuse(request, reason, version.signature)
    }
    passedOn()
  }
}
