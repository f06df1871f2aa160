import type { Caller } from '../../access/caller.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { OpenAiCall, type OpenAiParts } from './openai-call.ts'
import type { PreparedJob } from './openai-exchange.ts'
import type { LanguageTask, TextAnswer } from './text-model.ts'

export type TaskOfModel = {
  readonly model: string
  readonly task: Exclude<LanguageTask, 'generate'>
  readonly text: string
  readonly sampling: Readonly<Record<string, unknown>>
  readonly user: string
  /** The JSON of the answer. Throws ServerError when the model gave something else. */
  readonly answer: (answer: TextAnswer, version: ModelVersion) => unknown
}

/** A call of one inference with one answer: embeddings, rerank, tokenize, detokenize. */
export class TaskCall extends OpenAiCall {
  readonly #asked: TaskOfModel
  #version: ModelVersion | null = null
  #answer: TextAnswer | null = null

  constructor(parts: OpenAiParts, http: PortRequest, caller: Caller, asked: TaskOfModel) {
    super(parts, http, caller)
    this.#asked = asked
  }

  get modelName(): string {
    return this.#asked.model
  }

  get user(): string {
    return this.#asked.user
  }

  override prepare(_: number, version: ModelVersion): PreparedJob {
    this.#version = version
    const { task, text, sampling } = this.#asked
    return {
      job: { task, text, isStream: false, sampling, maxTokens: null, usualMaxTokens: null, logprobs: null },
      chatRequest: null,
    }
  }

  override answered(_: number, answer: TextAnswer): void {
    this.#answer ??= answer
  }

  protected override finished(): void {
    try {
      this.respondJson(this.#asked.answer(this.#answer as TextAnswer, this.#version as ModelVersion))
    } catch (reason) {
      this.failed(this.parts.engine.wording.tell(reason))
    }
  }
}
