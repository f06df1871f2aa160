// One request of a router: the choice of a model, and the requests to models that are made for it, one after the other.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ChatModels, ModelChat } from '../../model/chat-models.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelServices } from '../../model/model-services.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { noOrigin } from '../../model/request-origin.ts'
import { AskedFacts } from '../../rollouts/asked-facts.ts'
import { stickyKeyOf } from '../../rollouts/rollout-router.ts'
import { isFailureOfModel } from '../../rollouts/routed-request.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { numbersOf, stringsOf, tensorOfStrings } from '../../tensor/typed-values.ts'
import { chooseRoute } from './choose-route.ts'
import { RoutedAnswer } from './routed-answer.ts'
import type { RoutePlan } from './route-plan.ts'
import type { RouteTally } from './route-tally.ts'

export type RouterParts = {
  readonly clock: Clock
  readonly services: ModelServices
  readonly chats: ChatModels
}

export type Router = RouterParts & {
  readonly name: string
  readonly plan: RoutePlan
  readonly tally: RouteTally
  readonly log: Log
}

/** A text of English has about four characters for each token. For a tokenizer that cannot be asked. */
const usualTokenBytes = 4

export class RoutedCall {
  readonly #router: Router
  readonly #request: InferenceRequest
  readonly #draw: (key: string | null) => number
  readonly #texts: ReadonlyMap<string, string>
  #child: InferenceRequest | null = null
  /** Why the models so far did not answer. */
  readonly #failures: string[] = []

  constructor(router: Router, request: InferenceRequest, draw: (key: string | null) => number) {
    this.#router = router
    this.#request = request
    this.#draw = draw
    this.#texts = new Map(
      request.inputs
        .filter(({ dataType }) => dataType === 'BYTES')
        .map((tensor) => [tensor.name, stringsOf(tensor)[0] ?? '']),
    )
  }

  /** Ends when the request has ended. */
  async run(): Promise<void> {
    const request = this.#request
    request.handOver({
      onCancel: () => this.cancel(),
      onFlowChange: () => this.#child?.setPaused(request.isPaused),
    })
    try {
      await this.#route()
    } catch (reason) {
      if (request.isCancelled) request.failCancelled()
      else request.fail(ServerError.from(reason))
    }
  }

  cancel(): void {
    this.#child?.cancel()
  }

  async #route(): Promise<void> {
    const { plan, tally } = this.#router
    const chosen = await this.#choose()
    // A vector or a list of tokens of another model means something else.
    const isGeneration = (this.#texts.get('task') ?? 'generate') === 'generate'
    const others = plan.hasFallback && isGeneration ? plan.models.filter((model) => model !== chosen) : []
    const order = [chosen, ...others]
    for (const [place, target] of order.entries()) {
      this.#requireWaiting()
      const isLast = place === order.length - 1
      if (await this.#ask(target, isLast)) return
      tally.note('failed', target)
    }
    throw ServerError.withoutStack(
      'UNAVAILABLE',
      `no model behind router '${this.#router.name}' can answer now: ${this.#failures.join('; ')}`,
      1,
    )
  }

  /** Nobody waits any more. */
  #requireWaiting(): void {
    if (this.#request.isCancelled) throw ServerError.withoutStack('CANCELLED', '')
  }

  async #choose(): Promise<string> {
    const { plan } = this.#router
    const facts = new AskedFacts(() => '').of(this.#request.origin ?? noOrigin, false)
    let bucket: number | null = null
    const numbers = {
      maxTokens: this.#maxTokens(),
      bucket: () => (bucket ??= this.#draw(stickyKeyOf(plan.key, facts))),
    }
    return (
      chooseRoute(plan, facts, { ...numbers, promptTokens: null }) ??
      (chooseRoute(plan, facts, { ...numbers, promptTokens: await this.#countTokens() }) as string)
    )
  }

  #sampling(): Record<string, unknown> {
    const text = this.#texts.get('sampling_parameters') ?? ''
    if (text === '') return {}
    try {
      const sampling: unknown = JSON.parse(text)
      if (typeof sampling === 'object' && sampling !== null) return sampling as Record<string, unknown>
    } catch {
      // The refusal below says it.
    }
    throw ServerError.withoutStack('INVALID_ARG', "input 'sampling_parameters' must be the JSON text of an object")
  }

  #maxTokens(): number | null {
    const { max_tokens: most } = this.#sampling()
    return typeof most === 'number' || typeof most === 'string' ? Number(most) : null
  }

  /** By the tokenizer that the plan names; by the length of the text where that model cannot be asked. */
  async #countTokens(): Promise<number> {
    const { plan, chats, log, name } = this.#router
    const model = this.#findTarget(plan.tokenizer)
    const chat = this.#texts.get('chat_request') ?? null
    const isRendered = chat !== null && model !== null && !model.signature.inputByName.has('chat_request')
    const text = isRendered ? (await chats.prepare(model, chat)).text : (chat ?? this.#texts.get('text_input') ?? '')
    const estimate = Math.ceil(Buffer.byteLength(text) / usualTokenBytes)
    if (model === null) return estimate
    const inputs = [
      tensorFor(model, 'text_input', text),
      ...(model.signature.inputByName.has('task') ? [tensorFor(model, 'task', 'tokenize')] : []),
    ]
    let count = -1
    const error = await this.#send(model, inputs, ['tokens'], (response) => {
      const tokens = response.outputs.find((output) => output.name === 'tokens')
      if (tokens !== undefined) count = numbersOf(tokens).length
      response.release()
    })
    this.#requireWaiting()
    if (count >= 0) return count
    log.warning('a router counts the characters of prompts, because its tokenizer cannot be asked', {
      model: name,
      tokenizer: plan.tokenizer,
      reason: error?.message ?? 'it gave no tokens',
    })
    return estimate
  }

  /** Null: it does not serve. Throws ServerError for a model that cannot be behind a router. */
  #findTarget(name: string): ModelVersion | null {
    const model = this.#router.chats.find(name)
    if (model === null) return null
    const { inputByName, outputByName } = model.signature
    if (model.config.backend === 'router') {
      throw ServerError.withoutStack(
        'UNSUPPORTED',
        `model '${name}' is a router: a router cannot stand behind another one`,
      )
    }
    if (inputByName.has('text_input') && outputByName.has('text_output')) return model
    throw ServerError.withoutStack(
      'UNSUPPORTED',
      `model '${name}' cannot stand behind a router: it must have the input 'text_input' and the output 'text_output'`,
    )
  }

  /** True: the client has its answer, an error or not. */
  async #ask(target: string, isLast: boolean): Promise<boolean> {
    const { chats, tally, clock } = this.#router
    const request = this.#request
    const model = this.#findTarget(target)
    if (model === null) {
      this.#failures.push(`'${target}' is not ready`)
      return false
    }
    const chat = this.#texts.get('chat_request') ?? null
    const isPrepared = chat !== null && !model.signature.inputByName.has('chat_request')
    const prepared = isPrepared ? await chats.prepare(model, chat) : null
    this.#requireWaiting()
    const answer = new RoutedAnswer(model, request.requestedOutputs, prepared)
    let isAnswered = false
    const outputs = request.requestedOutputs.filter((name) => model.signature.outputByName.has(name))
    await this.#send(model, this.#inputsFor(model, prepared), outputs, (response, child) => {
      const { error } = response
      if (error !== null && !isAnswered && !isLast && isFailureOfModel(response, child) && !request.isCancelled) {
        this.#failures.push(`'${target}': ${error.message}`)
        return
      }
      if (!isAnswered && error === null) tally.note('answered', target)
      isAnswered = true
      request.computeOutputStartNs = clock.nowNs()
      request.computeEndNs = request.computeOutputStartNs
      request.respond(error === null ? answer.passed(response) : InferenceResponse.failure(error, response.isFinal))
    })
    return isAnswered
  }

  /** The inputs that the model has, in its form. */
  #inputsFor(model: ModelVersion, chat: ModelChat | null): Tensor[] {
    const { inputByName, isBatching } = model.signature
    const changed = new Map<string, Tensor>()
    if (chat !== null) {
      const most = this.#maxTokens() === null ? model.languageFacts?.contextLength : undefined
      const sampling = {
        ...this.#sampling(),
        ...(most === undefined ? {} : { max_tokens: most }),
        ...(chat.schema === null ? {} : { json_schema: chat.schema }),
      }
      changed.set('text_input', tensorFor(model, 'text_input', chat.text))
      if (inputByName.has('sampling_parameters')) {
        changed.set('sampling_parameters', tensorFor(model, 'sampling_parameters', JSON.stringify(sampling)))
      }
    }
    for (const { name, dataType, bytes } of this.#request.inputs) {
      if (changed.has(name) || !inputByName.has(name)) continue
      changed.set(name, new Tensor(name, dataType, isBatching ? [1, 1] : [1], bytes))
    }
    return [...changed.values()]
  }

  /** Ends with the last answer. Null: it was no error. */
  #send(
    model: ModelVersion,
    inputs: Tensor[],
    requestedOutputs: readonly string[],
    receive: (response: InferenceResponse, child: InferenceRequest) => void,
  ): Promise<ServerError | null> {
    const request = this.#request
    const { id, parameters, priority, timeoutUs, caller } = request
    return new Promise((resolve) => {
      const child = new InferenceRequest({
        modelName: model.name,
        id,
        inputs,
        requestedOutputs,
        parameters,
        priority,
        timeoutUs,
        caller,
        sink: (response, answered) => {
          const { isFinal, error } = response
          if (isFinal) this.#child = null
          receive(response, answered)
          if (isFinal) resolve(error)
        },
      })
      child.origin = request.origin
      child.deadlineNs = request.deadlineNs
      child.isInner = true
      child.isShadow = request.isShadow
      child.setPaused(request.isPaused)
      this.#child = child
      request.trace?.beginChild(child)
      this.#router.services.infer(child)
    })
  }
}

const tensorFor = ({ signature }: ModelVersion, name: string, text: string): Tensor =>
  tensorOfStrings(name, signature.isBatching ? [1, 1] : [1], [text])
