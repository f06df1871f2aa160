import { ServerError } from '../../base/server-error.ts'
import type { LanguageRequest } from '../../llm/language-request.ts'
import type { ToEngine } from './engine-protocol.ts'

/** Requests that name no priority come after those that name one. */
const usualPriority = 0x7fffffff
const mostDocuments = 1024
const mostInputs = 2048
/** So begins what the OpenAI API sends: a text of a client that begins so is no plain text. */
const listOfInputs = '{"input"'

/** What the engine is told to do for a request. */
export function engineOrder(
  key: number,
  { task, text, sampling, isStreamed }: LanguageRequest,
  request: { readonly priority: bigint; readonly waitedMs: number },
): ToEngine {
  const priority = request.priority === 0n ? usualPriority : Number(request.priority)
  switch (task) {
    case 'embed':
      return { kind: 'pool', key, texts: inputsOf(text), query: null, priority }
    case 'rerank':
      return { kind: 'pool', key, ...rerankOf(text), priority }
    case 'tokenize':
      return { kind: 'tokenize', key, text, addSpecial: sampling.addSpecialTokens }
    case 'detokenize':
      return { kind: 'detokenize', key, tokens: tokensOf(text) }
    case 'generate':
    default:
      return { kind: 'generate', key, text, sampling, priority, isStreamed, waitedMs: request.waitedMs }
  }
}

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** One text, or JSON with a list of texts and of lists of tokens. */
function inputsOf(text: string): (string | number[])[] {
  if (!text.startsWith(listOfInputs)) return [text]
  const inputs = (jsonOf(text) as { input?: unknown } | undefined)?.input
  const isGood = Array.isArray(inputs) && inputs.every((each) => typeof each === 'string' || isTokens(each))
  if (!isGood || inputs.length === 0) {
    throw invalid(`text_input of task 'embed' must be a text, or JSON like {"input": ["…", [1, 2]]}`)
  }
  if (inputs.length > mostInputs) {
    throw invalid(`text_input of task 'embed' may have at most ${mostInputs} texts, got ${inputs.length}`)
  }
  return inputs as (string | number[])[]
}

const isTokens = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && (id as number) >= 0)

function rerankOf(text: string): { texts: string[]; query: string } {
  const asked = jsonOf(text) as { query?: unknown; documents?: unknown } | null | undefined
  const { query, documents } = asked ?? {}
  const isList = Array.isArray(documents) && documents.every((each) => typeof each === 'string')
  if (typeof query !== 'string' || !isList || documents.length === 0) {
    throw invalid(`text_input of task 'rerank' must be JSON like {"query": "…", "documents": ["…"]}`)
  }
  if (documents.length > mostDocuments) {
    throw invalid(`text_input of task 'rerank' may have at most ${mostDocuments} documents, got ${documents.length}`)
  }
  return { texts: documents, query }
}

function tokensOf(text: string): number[] {
  const tokens = jsonOf(text)
  if (isTokens(tokens)) return tokens
  throw invalid("text_input of task 'detokenize' must be a JSON list of token ids")
}
