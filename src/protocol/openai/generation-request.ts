// The bodies of chat/completions and completions → one GenerationRequest.

import { readMessages, readTools, type ChatMessage, type ChatTool, type ToolChoice } from './chat-messages.ts'
import { badRequest, unsupported } from './openai-problem.ts'
import { RequestFields, type JsonObject } from './request-fields.ts'
import { isToken, readMaxTokens, readSampling, type SamplingParameters } from './sampling-parameters.ts'

/** A text, or token ids that become one. */
export type Prompt = string | readonly number[]

export type Chat = {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ChatTool[]
  readonly toolChoice: ToolChoice
  /** OpenAI's `parallel_tool_calls` is false: an answer has one call at most. */
  readonly callsOnce: boolean
  /** What the template gets beside messages and tools. */
  readonly templateFields: JsonObject
  /** False: `<think>` stays in the text. */
  readonly separatesReasoning: boolean
  /** The last message is from the assistant, and the model goes on with it. */
  readonly continuesLast: boolean
}

export type GenerationRequest = {
  readonly model: string
  /** Empty for a chat. */
  readonly prompts: readonly Prompt[]
  readonly chat: Chat | null
  /** Choices for each prompt. */
  readonly choiceCount: number
  readonly isStream: boolean
  readonly includesUsage: boolean
  readonly sampling: SamplingParameters
  /** Null: the model's own limit. */
  readonly maxTokens: number | null
  /** How many alternatives of each token are told; null: no probabilities at all. */
  readonly logprobs: number | null
  /** The answer begins with the prompt. */
  readonly echoes: boolean
  readonly suffix: string
  readonly user: string
}

/** OpenAI's bounds. */
const mostChoices = 128
const mostChatLogprobs = 20
const mostCompletionLogprobs = 5
/** Prompts of one completion. */
const mostPrompts = 256
/** Choices of all prompts together. */
const mostAnswers = 4096
const mostPromptTokens = 1_048_576
/** Tokens of a completion that does not say how many. */
export const usualCompletionTokens = 16

/** Throws OpenAiProblem. */
export function readChatRequest(body: JsonObject): GenerationRequest {
  const fields = new RequestFields(body)
  const model = fields.requiredText('model')
  const messages = readMessages(fields)
  const { tools, choice } = readTools(fields)
  refuseOthers(fields)
  const continuesLast = fields.flag('continue_final_message') ?? false
  if (continuesLast && messages.at(-1)?.role !== 'assistant') {
    throw badRequest("'continue_final_message' needs a last message of the role 'assistant'", 'continue_final_message')
  }
  return {
    ...readShared(fields, model),
    prompts: [],
    chat: {
      messages,
      tools,
      toolChoice: choice,
      callsOnce: fields.flag('parallel_tool_calls') === false,
      templateFields: fields.object('chat_template_kwargs') ?? {},
      separatesReasoning: fields.text('reasoning_format') !== 'none',
      continuesLast,
    },
    maxTokens: readMaxTokens(fields, 'max_completion_tokens', 'max_tokens'),
    logprobs: readChatLogprobs(fields),
    echoes: false,
    suffix: '',
  }
}

/** Throws OpenAiProblem. */
export function readCompletionRequest(body: JsonObject): GenerationRequest {
  const fields = new RequestFields(body)
  const model = fields.requiredText('model')
  const prompts = readPrompts(fields)
  const shared = readShared(fields, model)
  const answers = prompts.length * shared.choiceCount
  if (answers > mostAnswers) throw badRequest(`'n' is ${shared.choiceCount} for ${prompts.length} prompts, which makes ${answers} choices: at most ${mostAnswers} are made by one call`, 'n') // prettier-ignore
  const bestOf = fields.integer('best_of', 1, 20)
  if (bestOf !== null && bestOf !== shared.choiceCount) {
    throw unsupported(
      `'best_of' is ${bestOf} and 'n' is ${shared.choiceCount}: this server makes as many answers as it returns`,
      'best_of',
    )
  }
  const suffix = fields.text('suffix') ?? ''
  if (suffix !== '') throw unsupported("'suffix' is not supported: models here continue a prompt", 'suffix')
  const logprobs = fields.integer('logprobs', 0, mostCompletionLogprobs)
  const echoes = fields.flag('echo') ?? false
  if (echoes && logprobs !== null) {
    throw unsupported(
      "'echo' with 'logprobs' is not supported: probabilities of the prompt are not computed",
      'logprobs',
    )
  }
  return {
    ...shared,
    prompts,
    chat: null,
    maxTokens: readMaxTokens(fields, 'max_tokens'),
    logprobs,
    echoes,
    suffix,
  }
}

type Shared = Pick<GenerationRequest, 'model' | 'choiceCount' | 'isStream' | 'includesUsage' | 'sampling' | 'user'>

function readShared(fields: RequestFields, model: string): Shared {
  const isStream = fields.flag('stream') ?? false
  const streamOptions = fields.inner('stream_options')
  if (streamOptions !== null && !isStream) {
    throw badRequest("'stream_options' is only allowed when 'stream' is true", 'stream_options')
  }
  return {
    model,
    choiceCount: fields.integer('n', 1, mostChoices) ?? 1,
    isStream,
    includesUsage: streamOptions?.flag('include_usage') ?? false,
    sampling: readSampling(fields),
    user: fields.text('user') ?? '',
  }
}

function readChatLogprobs(fields: RequestFields): number | null {
  const isOn = fields.flag('logprobs') ?? false
  const top = fields.integer('top_logprobs', 0, mostChatLogprobs)
  if (top !== null && !isOn) throw badRequest("'top_logprobs' needs 'logprobs' to be true", 'top_logprobs')
  return isOn ? (top ?? 0) : null
}

/** What OpenAI has and a text model has not. */
function refuseOthers(fields: RequestFields): void {
  const modalities = fields.list('modalities', 16)
  if (modalities?.some((each) => each !== 'text') === true || fields.has('audio')) {
    throw unsupported("the models of this server write text: leave 'audio' out", 'modalities')
  }
  for (const name of ['functions', 'function_call']) {
    if (fields.has(name)) throw unsupported(`'${name}' is OpenAI's old form: send 'tools' and 'tool_choice'`, name)
  }
}

function readPrompts(fields: RequestFields): Prompt[] {
  const given = fields.raw('prompt')
  if (given === null) throw badRequest("you must provide 'prompt'", 'prompt')
  return readTexts(given, 'prompt', mostPrompts)
}

/** A text, a list of texts, a list of token ids, or a list of such lists. Throws OpenAiProblem. */
export function readTexts(given: unknown, param: string, most: number): Prompt[] {
  if (typeof given === 'string') return [given]
  if (!Array.isArray(given) || given.length === 0) {
    throw badRequest(`'${param}' must be a string, a list of strings or token ids, and not empty`, param)
  }
  if (given.every(isToken)) return [tokensOf(given, param)]
  if (given.length > most) throw badRequest(`'${param}' has ${given.length} entries, at most ${most} are taken`, param)
  return given.map((each: unknown, index): Prompt => {
    if (typeof each === 'string') return each
    if (Array.isArray(each) && each.length > 0 && each.every(isToken)) return tokensOf(each, `${param}[${index}]`)
    throw badRequest(`'${param}[${index}]' must be a string or a list of token ids`, `${param}[${index}]`)
  })
}

function tokensOf(tokens: readonly unknown[], param: string): readonly number[] {
  if (tokens.length <= mostPromptTokens) return tokens as readonly number[]
  throw badRequest(`'${param}' has ${tokens.length} tokens, at most ${mostPromptTokens} are taken`, param)
}
