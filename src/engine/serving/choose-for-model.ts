import type { Chooser, ChoiceWatch, RequestFacts } from '../../model/choice.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { noOrigin, type RequestHead, type RequestOrigin } from '../../model/request-origin.ts'
import type { ServedModel } from './served-model.ts'

/** The version for a request that a model sends: a step of an ensemble, or a call. Throws what the Chooser throws. */
export function chooseForModel(model: ServedModel, chooser: Chooser, request: InferenceRequest): ModelVersion {
  const facts = new InheritedFacts(request)
  const version = chooser(facts, request.modelVersion, model)
  if (facts.watch === null) return version
  request.watch = facts.watch
  // Inputs may be outputs of another model, whose memory is given back with the answer.
  facts.watch.begun(request, false)
  return facts.watch.version
}

/** The facts of the client's call, with the parameters and the sequence of the request that is made for it. */
class InheritedFacts implements RequestFacts {
  watch: ChoiceWatch | null = null
  readonly #origin: RequestOrigin
  readonly #request: InferenceRequest

  constructor(request: InferenceRequest) {
    this.#request = request
    this.#origin = request.origin ?? noOrigin
  }

  get protocol(): RequestOrigin['protocol'] {
    return this.#origin.protocol
  }
  get api(): RequestOrigin['api'] {
    return this.#origin.api
  }
  get path(): string {
    return this.#origin.path
  }
  get peer(): string {
    return this.#origin.peer
  }
  get caller(): RequestOrigin['caller'] {
    return this.#origin.caller
  }
  header(name: string): string | null {
    return this.#origin.header(name)
  }

  head(): RequestHead {
    const { id, parameters, correlationId, isSequenceStart } = this.#request
    const inherited = this.#origin.head().parameters
    return { id, parameters: new Map([...inherited, ...parameters]), correlationId, isSequenceStart }
  }
}
