import type { ModelChat } from '../../model/chat-models.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { bytesElementsOf, tensorOfStrings } from '../../tensor/typed-values.ts'

/** The answers of one model behind a router → the answers of the router. */
export class RoutedAnswer {
  readonly #model: ModelVersion
  readonly #chat: ModelChat | null
  readonly #wanted: readonly string[]
  /** Characters may be cut between two answers. */
  readonly #decoder = new TextDecoder()

  constructor(model: ModelVersion, wanted: readonly string[], chat: ModelChat | null) {
    this.#model = model
    this.#wanted = wanted
    this.#chat = chat
  }

  passed(response: InferenceResponse): InferenceResponse {
    const { isFinal, isFlagOnly } = response
    const chat = this.#chat
    if (chat === null) return isFlagOnly ? response : this.#withName(response, response.outputs)
    const text = response.outputs.find(({ name }) => name === 'text_output')
    const bytes = text === undefined ? new Uint8Array(0) : (bytesElementsOf(text)[0] ?? new Uint8Array(0))
    const { content, delta } = chat.read(this.#decoder.decode(bytes, { stream: !isFinal }), isFinal)
    if (isFlagOnly && content === '' && delta === '') return response
    const outputs = [
      tensorOfStrings('text_output', this.#model.signature.isBatching ? [1, 1] : [1], [content]),
      ...response.outputs.filter(({ name }) => name !== 'text_output'),
    ]
    if (delta !== '' && this.#isWanted('chat_delta')) outputs.push(tensorOfStrings('chat_delta', [1], [delta]))
    return this.#withName(response, outputs)
  }

  #isWanted(name: string): boolean {
    return this.#wanted.length === 0 || this.#wanted.includes(name)
  }

  #withName(response: InferenceResponse, outputs: readonly Tensor[]): InferenceResponse {
    const { name, signature } = this.#model
    // The router has no batches: the first dimension of a model that has some is left out.
    const own = signature.isBatching
      ? outputs.map((tensor) =>
          tensor.name === 'chat_delta'
            ? tensor
            : new Tensor(tensor.name, tensor.dataType, tensor.shape.slice(1), tensor.bytes),
        )
      : [...outputs]
    if (this.#isWanted('answered_by')) own.push(tensorOfStrings('answered_by', [1], [name]))
    const { parameters, isFinal } = response
    return InferenceResponse.of(own, { parameters, isFinal, release: () => response.release() })
  }
}
