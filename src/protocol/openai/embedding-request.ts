// The bodies of embeddings, rerank, tokenize and detokenize.

import { readTexts, type Prompt } from './generation-request.ts'
import { badRequest } from './openai-problem.ts'
import { isObject, RequestFields, type JsonObject } from './request-fields.ts'
import { readTokens } from './sampling-parameters.ts'

/** OpenAI's bound. */
const mostInputs = 2048
const mostDocuments = 2048
const mostTokens = 1_048_576
const mostDimensions = 65_536

type EmbeddingRequest = {
  readonly model: string
  readonly inputs: readonly Prompt[]
  readonly isBase64: boolean
  /** Null: as long as the model makes them. */
  readonly dimensions: number | null
  readonly user: string
}

/** Throws OpenAiProblem. */
export function readEmbeddingRequest(body: JsonObject): EmbeddingRequest {
  const fields = new RequestFields(body)
  const model = fields.requiredText('model')
  const given = fields.raw('input')
  if (given === null) throw badRequest("you must provide 'input'", 'input')
  const inputs = readTexts(given, 'input', mostInputs)
  inputs.forEach((input, index) => {
    if (input === '') throw badRequest(`'input[${index}]' is empty`, 'input')
  })
  const format = fields.text('encoding_format') ?? 'float'
  if (format !== 'float' && format !== 'base64') throw fields.wrong('encoding_format', "'float' or 'base64'")
  return {
    model,
    inputs,
    isBase64: format === 'base64',
    dimensions: fields.integer('dimensions', 1, mostDimensions),
    user: fields.text('user') ?? '',
  }
}

type RerankRequest = {
  readonly model: string
  readonly query: string
  readonly documents: readonly string[]
  readonly topCount: number
  readonly user: string
}

/** Throws OpenAiProblem. */
export function readRerankRequest(body: JsonObject): RerankRequest {
  const fields = new RequestFields(body)
  const model = fields.requiredText('model')
  const query = fields.requiredText('query')
  const given = fields.list('documents', mostDocuments) ?? fields.list('texts', mostDocuments)
  if (given === null || given.length === 0) {
    throw badRequest("you must provide 'documents', a list with at least one document", 'documents')
  }
  const documents = given.map((document, index) => {
    const text: unknown = isObject(document) ? document['text'] : document
    if (typeof text === 'string') return text
    throw badRequest(`'documents[${index}]' must be a string or an object with 'text'`, `documents[${index}]`)
  })
  const topCount = fields.integer('top_n', 0, Number.MAX_SAFE_INTEGER) ?? 0
  return {
    model,
    query,
    documents,
    topCount: topCount === 0 ? documents.length : Math.min(topCount, documents.length),
    user: fields.text('user') ?? '',
  }
}

type TokenizeRequest = { readonly model: string; readonly text: string; readonly sampling: JsonObject }

/** Throws OpenAiProblem. `content` and `add_special` are llama.cpp's names. */
export function readTokenizeRequest(body: JsonObject): TokenizeRequest {
  const fields = new RequestFields(body)
  const model = fields.requiredText('model')
  const text = fields.text('prompt') ?? fields.text('content')
  if (text === null) throw badRequest("you must provide 'prompt'", 'prompt')
  const special = fields.flag('add_special_tokens') ?? fields.flag('add_special')
  return { model, text, sampling: special === null ? {} : { add_special_tokens: special } }
}

/** Throws OpenAiProblem. */
export function readDetokenizeRequest(body: JsonObject): {
  readonly model: string
  readonly tokens: readonly number[]
} {
  const fields = new RequestFields(body)
  const model = fields.requiredText('model')
  const tokens = readTokens(fields, 'tokens', mostTokens)
  if (tokens === null) throw badRequest("you must provide 'tokens'", 'tokens')
  return { model, tokens }
}
