// The handlers of the OpenAI API. This code is read when the first call comes.

import { randomUUID } from 'node:crypto'
import type { Caller } from '../../access/caller.ts'
import { visibleModels } from '../../access/require-right.ts'
import { percentDecoded } from '../../base/percent-decoded.ts'
import { turnBudget } from '../../base/turn-budget.ts'
import { ServerError } from '../../base/server-error.ts'
import { servedNames } from '../../exchange/served-names.ts'
import { httpChangeOrigin } from '../../ports/http/http-change-origin.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { ChatAnswer } from '../../protocol/openai/chat-answer.ts'
import { CompletionAnswer } from '../../protocol/openai/completion-answer.ts'
import type { AnswerFacts } from '../../protocol/openai/generation-answer.ts'
import { readChatRequest, readCompletionRequest } from '../../protocol/openai/generation-request.ts'
import { embeddingAnswer, rerankAnswer } from '../../protocol/openai/embedding-answer.ts'
import {
  readDetokenizeRequest,
  readEmbeddingRequest,
  readRerankRequest,
  readTokenizeRequest,
} from '../../protocol/openai/embedding-request.ts'
import { readResponsesRequest } from '../../protocol/openai/responses-request.ts'
import { ResponsesAnswer } from '../../protocol/openai/responses-answer.ts'
import { badRequest, notImplemented } from '../../protocol/openai/openai-problem.ts'
import { splitAdapterName } from '../../protocol/openai/adapter-name.ts'
import { readOpenAiBody } from '../../protocol/openai/openai-body.ts'
import { HttpResponse, jsonType } from '../../transport/http1/http-message.ts'
import type { OpenAiBatches } from '../../jobs/openai-batches.ts'
import { BatchEndpoints } from './batch-endpoints.ts'
import { ChatTemplates } from './chat-templates.ts'
import { GenerationCall } from './generation-call.ts'
import { openAiErrorResponse, type OpenAiParts } from './openai-call.ts'
import { TaskCall, type TaskOfModel } from './task-call.ts'
import { takesText } from './text-model.ts'

/** What the routes are made of. */
export type OpenAiRouteParts = Omit<OpenAiParts, 'templates'> & {
  /** Null: the server runs no jobs, and so no batches. */
  readonly batches: OpenAiBatches | null
}

/** The flags that bodies are read with. */
export type OpenAiLimits = Pick<HttpOptions, 'maxOpenAiBytes' | 'loraSeparator'>

export class OpenAiEndpoints {
  readonly #parts: OpenAiParts
  readonly #limits: OpenAiLimits
  readonly #batches: BatchEndpoints

  constructor(parts: OpenAiRouteParts, limits: OpenAiLimits) {
    this.#parts = { ...parts, log: parts.log.from('openai-endpoints.ts'), templates: new ChatTemplates(parts) }
    this.#limits = limits
    this.#batches = new BatchEndpoints(
      parts.clock,
      parts.batches,
      (http) => this.#body(http),
      (http, reason) => this.#refuse(http, reason),
    )
  }

  close(): void {
    this.#parts.templates.close()
  }

  readonly chatCompletions: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const request = readChatRequest(this.#body(http))
      const facts = this.#facts('chatcmpl', request.model)
      const form = new ChatAnswer(facts, request.logprobs, request.includesUsage)
      new GenerationCall(this.#parts, http, caller, request, facts, form).begin()
    })

  readonly completions: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const request = readCompletionRequest(this.#body(http))
      const facts = this.#facts('cmpl', request.model)
      const form = new CompletionAnswer(facts, request.logprobs !== null, request.includesUsage)
      new GenerationCall(this.#parts, http, caller, request, facts, form).begin()
    })

  readonly responses: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const body = this.#body(http)
      const request = readResponsesRequest(body)
      const facts = { ...this.#facts('resp', request.model), id: newId('resp_') }
      new GenerationCall(this.#parts, http, caller, request, facts, new ResponsesAnswer(facts, body)).begin()
    })

  readonly embeddings: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const request = readEmbeddingRequest(this.#body(http))
      this.#task(http, caller, {
        ...request,
        task: 'embed',
        text: JSON.stringify({ input: request.inputs }),
        answer: ({ embedding, inputTokens }) => embeddingAnswer(given(embedding, 'embedding'), request, inputTokens),
      })
    })

  readonly rerank: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const request = readRerankRequest(this.#body(http))
      const { query, documents } = request
      this.#task(http, caller, {
        ...request,
        task: 'rerank',
        text: JSON.stringify({ query, documents }),
        answer: ({ scores, inputTokens }) =>
          rerankAnswer(newId('rerank-'), request, given(scores, 'scores'), inputTokens),
      })
    })

  readonly tokenize: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const request = readTokenizeRequest(this.#body(http))
      this.#task(http, caller, {
        ...request,
        task: 'tokenize',
        answer: (answer, { languageFacts }) => {
          const tokens = given(answer.tokens, 'tokens')
          return { count: tokens.length, max_model_len: languageFacts?.contextLength ?? null, tokens }
        },
      })
    })

  readonly detokenize: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const { model, tokens } = readDetokenizeRequest(this.#body(http))
      this.#task(http, caller, {
        model,
        task: 'detokenize',
        text: JSON.stringify(tokens),
        answer: ({ texts }) => {
          const text = Buffer.concat(texts).toString()
          // llama.cpp says `content`, vLLM `prompt`.
          return { prompt: text, content: text }
        },
      })
    })

  readonly transcriptions: RouteHandler = (http) =>
    this.#answer(http, () => {
      throw notImplemented('the models of this server take text: there is none that writes down speech')
    })

  readonly files: RouteHandler = (...call) => this.#batches.files(...call)
  readonly file: RouteHandler = (...call) => this.#batches.file(...call)
  readonly fileContent: RouteHandler = (...call) => this.#batches.fileContent(...call)
  readonly batches: RouteHandler = (...call) => this.#batches.batches(...call)
  readonly batch: RouteHandler = (...call) => this.#batches.batch(...call)
  readonly cancelBatch: RouteHandler = (...call) => this.#batches.cancelBatch(...call)

  /** As Triton's OpenAI front end. */
  readonly loadModel: RouteHandler = (http, name, _, caller) =>
    this.#control(http, async () => {
      this.#parts.engine.requireExplicitControl()
      await this.#parts.engine.load(name, null, httpChangeOrigin(http, caller))
      return this.#listed().get(name) ?? modelJson(name, 0)
    })

  readonly unloadModel: RouteHandler = (http, name, _, caller) =>
    this.#control(http, async () => {
      this.#parts.engine.requireExplicitControl()
      if (this.#parts.engine.servedModel(name) === undefined) throw noSuchModel(name)
      await this.#parts.engine.unload(name, false, httpChangeOrigin(http, caller))
      return { status: 'success', model: name }
    })

  #control(http: PortRequest, act: () => Promise<unknown>): void {
    act().then(
      (json) => respondJson(http, json),
      (reason: unknown) => this.#refuse(http, reason),
    )
  }

  #task(http: PortRequest, caller: Caller, asked: Omit<TaskOfModel, 'sampling' | 'user'> & Partial<TaskOfModel>): void {
    new TaskCall(this.#parts, http, caller, { sampling: {}, user: '', ...asked }).start(1)
  }

  /** 200, else 400, as Triton's OpenAI front end. */
  readonly health: RouteHandler = (http) =>
    http.respond(new HttpResponse(this.#parts.engine.isReady ? 200 : 400, jsonType))

  readonly listModels: RouteHandler = (http, _, __, caller) => {
    respondJson(http, { object: 'list', data: this.#models(caller) })
  }

  readonly showModel: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, () => {
      const name = modelIn(http.target)
      const model = this.#models(caller).find(({ id }) => id === name)
      if (model === undefined) throw noSuchModel(name)
      respondJson(http, model)
    })

  /** With the member of KServe v1. */
  readonly listBoth: RouteHandler = (http, _, __, caller) => {
    const models = servedNames(this.#parts.engine, caller, 'metadata').sort()
    respondJson(http, { models, object: 'list', data: this.#models(caller) })
  }

  /** With the members of KServe v1. False: this is no model that takes text. */
  readonly showBoth = (http: PortRequest, name: string, _: string, caller: Caller): boolean => {
    const model = this.#models(caller).find(({ id }) => id === name)
    if (model === undefined || !this.#parts.engine.isModelReady(name, '')) return false
    respondJson(http, { name, ready: true, ...model })
    return true
  }

  #models(caller: Caller): { id: string }[] {
    const isVisible = visibleModels(caller, 'metadata')
    const visible = [...this.#listed().values()].filter(({ id }) => isVisible?.(id) !== false)
    return visible.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  #listed(): Map<string, ModelJson> {
    const models = new Map<string, ModelJson>()
    for (const { name, signature, languageFacts, readyMs = 0 } of this.#parts.engine.models()) {
      if (!takesText(signature)) continue
      const created = Math.max(models.get(name)?.created ?? 0, Math.floor(readyMs / 1000))
      const length = languageFacts?.contextLength
      models.set(name, { ...modelJson(name, created), ...(length === undefined ? {} : { max_model_len: length }) })
    }
    return models
  }

  #facts(prefix: string, model: string): AnswerFacts {
    const created = Math.floor(this.#parts.clock.wallMs() / 1000)
    return { id: newId(`${prefix}-`), created, model, fingerprint: null }
  }

  #body(http: PortRequest): ReturnType<typeof readOpenAiBody> {
    const startNs = this.#parts.clock.nowNs()
    try {
      const { maxOpenAiBytes, loraSeparator } = this.#limits
      return splitAdapterName(readOpenAiBody(http.body, maxOpenAiBytes), loraSeparator)
    } finally {
      turnBudget.spendNs(this.#parts.clock.nowNs() - startNs)
    }
  }

  #answer(http: PortRequest, handle: () => void): void {
    try {
      handle()
    } catch (reason) {
      this.#refuse(http, reason)
    }
  }

  #refuse(http: PortRequest, reason: unknown): void {
    const error = this.#parts.engine.wording.tell(reason)
    this.#parts.engine.refusals.count(error)
    http.respond(openAiErrorResponse(error))
  }
}

/** All that follows `/v1/models/`: names of models may have slashes. */
function modelIn(target: string): string {
  const name = percentDecoded(target.split('?', 1)[0]?.split('/').slice(3).join('/') ?? '')
  if (name === null) throw badRequest('the name of the model in the path is not percent-encoded UTF-8')
  return name
}

const newId = (prefix: string): string => prefix + randomUUID().replaceAll('-', '')

function given<T>(value: T | null, output: string): T {
  if (value !== null) return value
  throw new ServerError('INTERNAL', `the model gave no output '${output}'`)
}

type ModelJson = { readonly id: string; readonly created: number }

/** `created` is when the model was loaded. */
const modelJson = (
  id: string,
  created: number,
): ModelJson & { readonly object: string; readonly owned_by: string } => ({
  id,
  object: 'model',
  created,
  owned_by: 'galatea',
})

const noSuchModel = (name: string): ServerError =>
  ServerError.withoutStack('NOT_FOUND', `The model '${name}' does not exist`)

const respondJson = (http: PortRequest, json: unknown): void =>
  http.respond(new HttpResponse(200, jsonType, [Buffer.from(JSON.stringify(json))]))
