// chat/completions, completions and responses: the same inferences, answered in three forms.

import { randomBytes } from 'node:crypto'
import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import { sendPiece } from '../../exchange/send-piece.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { ChatOutput, type OutputEvent } from '../../protocol/openai/chat-output.ts'
import { forcedSchema } from '../../protocol/openai/forced-tools.ts'
import type {
  AnswerFacts,
  AnswerForm,
  Choice,
  FinishReason,
  TokenLogprob,
  TokenUsage,
  WireEvent,
} from '../../protocol/openai/generation-answer.ts'
import { usualCompletionTokens, type Chat, type GenerationRequest } from '../../protocol/openai/generation-request.ts'
import { badRequest, openAiErrorBody, unsupported } from '../../protocol/openai/openai-problem.ts'
import { isObject } from '../../protocol/openai/request-fields.ts'
import { HttpResponse, type ResponseStream } from '../../transport/http1/http-message.ts'
import { chatOutputSettings, chatPrompt, templateOf } from './chat-prompt.ts'
import { OpenAiCall, type OpenAiParts } from './openai-call.ts'
import type { PreparedJob, PrepareDone } from './openai-exchange.ts'
import { textModelOf, type TextAnswer, type TextJob } from './text-model.ts'

/** A choice while it grows. */
type Growing = Choice & {
  readonly decoder: TextDecoder
  output: ChatOutput | null
  usage: TokenUsage | null
  /** The finish reason that the model gave; '' while it goes on. */
  reason: string
  isClosed: boolean
}

/** Of all choices of an answer that is sent as a whole: the alternatives of each token, and the token itself. */
const mostKeptLogprobs = 262_144
/** What one of them takes in memory. */
const bytesOfLogprob = 256
/** A longer answer comes piece by piece, so that no piece with probabilities takes long to read. */
const mostLogprobsOfPiece = 4096

const tooManyLogprobs = badRequest(
  `the answer has more than ${mostKeptLogprobs} probabilities of tokens and their alternatives, which is the most of an answer that is sent as a whole: ask for a stream, or for fewer`,
  'logprobs',
)

export class GenerationCall extends OpenAiCall {
  readonly #request: GenerationRequest
  readonly #facts: AnswerFacts
  readonly #form: AnswerForm
  readonly #choices: Growing[]
  #stream: ResponseStream | null = null
  isBehind = false
  #keptLogprobs = 0

  constructor(
    parts: OpenAiParts,
    http: PortRequest,
    caller: Caller,
    request: GenerationRequest,
    facts: AnswerFacts,
    form: AnswerForm,
  ) {
    super(parts, http, caller)
    this.#request = request
    this.#facts = facts
    this.#form = form
    const count = Math.max(1, request.prompts.length) * request.choiceCount
    this.#choices = Array.from({ length: count }, (_, index) => newChoice(index))
  }

  get modelName(): string {
    return this.#request.model
  }

  get user(): string {
    return this.#request.user
  }

  begin(): void {
    this.start(this.#choices.length)
  }

  override prepare(index: number, version: ModelVersion): PreparedJob | null {
    const { chat, prompts, choiceCount } = this.#request
    this.#facts.fingerprint ??= `${version.name}/${version.version}`
    const model = textModelOf(version.signature)
    if (chat === null) {
      const prompt = prompts[Math.floor(index / choiceCount)] ?? ''
      if (typeof prompt !== 'string') {
        throw unsupported("'prompt' has token ids: send the text, which the model splits into tokens itself", 'prompt')
      }
      return { job: this.#job(prompt, index, version), chatRequest: null }
    }
    if (model.takesChat) {
      const parsed = model.tellsApart ? null : chat
      return { job: this.#job(lastText(chat), index, version, parsed), chatRequest: chat }
    }
    return null
  }

  /** The template comes with the model's files, so a model that sleeps is woken first. */
  prepareLater(index: number, version: ModelVersion, done: PrepareDone): { cancel(): void } {
    const { engine } = this.parts
    const isAsleep = (engine.servedModel(version.name)?.sleeping ?? null) !== null
    if (!isAsleep) return this.#render(index, version, done)
    let render: { cancel(): void } | null = null
    let isCancelled = false
    const wake = async (): Promise<void> => {
      try {
        await engine.load(version.name)
        if (!isCancelled) render = this.#render(index, engine.findVersion(version.name, version.version), done)
      } catch (reason) {
        if (!isCancelled) done(reason, null)
      }
    }
    void wake()
    return {
      cancel: () => {
        isCancelled = true
        render?.cancel()
      },
    }
  }

  #render(index: number, version: ModelVersion, done: PrepareDone): { cancel(): void } {
    const chat = this.#request.chat as Chat
    const job = { template: templateOf(version), fields: chatPrompt(chat, version) }
    return this.parts.templates.render(job, (error, text) => {
      if (text === null) done(error, null)
      else done(null, { job: this.#job(text, index, version, chat), chatRequest: null })
    })
  }

  #job(text: string, index: number, version: ModelVersion, chat: Chat | null = null): TextJob {
    const { sampling, maxTokens, logprobs, isStream, choiceCount } = this.#request
    const forced = chat === null ? null : forcedSchema(chat.tools, chat.toolChoice, chat.callsOnce)
    const choice = this.#choices[index] as Growing
    choice.output = chat === null ? null : new ChatOutput(chatOutputSettings(chat, text))
    if (this.#request.echoes) this.#tell(choice, [{ kind: 'content', text }])
    // Choices of one seed would all be the same.
    const seed = sampling['seed']
    const shift = index % choiceCount
    const usualMaxTokens =
      this.#request.chat === null ? usualCompletionTokens : (version.languageFacts?.contextLength ?? null)
    const told = logprobs === null ? 0 : (maxTokens ?? usualMaxTokens ?? Infinity) * (1 + logprobs)
    return {
      task: 'generate',
      text,
      isStream: isStream || (told > mostLogprobsOfPiece && version.signature.isDecoupled),
      sampling: {
        ...sampling,
        ...(typeof seed === 'number' && shift > 0 ? { seed: seed + shift } : {}),
        ...(forced === null ? {} : { json_schema: forced }),
      },
      maxTokens,
      usualMaxTokens,
      logprobs,
    }
  }

  override answered(index: number, answer: TextAnswer, isFinal: boolean): void {
    const choice = this.#choices[index] as Growing
    if (answer.answeredBy !== '') this.#facts.model = answer.answeredBy
    let text = ''
    for (const bytes of answer.texts) text += choice.decoder.decode(bytes, { stream: true })
    if (answer.finishReason !== '' && answer.finishReason !== 'null') choice.reason = answer.finishReason
    countTokens(choice, answer)
    if (!this.#request.isStream && !this.#keep(choice, answer.logprobs)) return
    const events = choice.output === null ? contentOf(text) : choice.output.push(text)
    if (answer.chatDelta !== '') events.push(...deltaEvents(answer.chatDelta))
    this.#tell(choice, events, answer)
    if (isFinal) this.#close(choice)
  }

  /** False: the call has failed, because the probabilities of a whole answer are too many to be kept. */
  #keep(choice: Growing, logprobs: readonly TokenLogprob[]): boolean {
    let count = 0
    for (const each of logprobs) {
      choice.logprobs.push(each)
      count += 1 + each.top.length
    }
    if (count === 0) return true
    this.#keptLogprobs += count
    const { memory } = this.http
    const isTooMany = this.#keptLogprobs > mostKeptLogprobs
    if (!isTooMany && memory.reserve(count * bytesOfLogprob)) return true
    this.failed(isTooMany ? tooManyLogprobs : ServerError.withoutStack('UNAVAILABLE', memory.refuse(count * bytesOfLogprob))) // prettier-ignore
    return false
  }

  #tell(choice: Growing, events: readonly OutputEvent[], answer: TextAnswer | null = null): void {
    for (const event of events) grow(choice, event)
    const logprobs = answer?.logprobs ?? []
    if (!this.#request.isStream || (events.length === 0 && logprobs.length === 0)) return
    this.#send(() => this.#form.delta(choice, events, logprobs))
  }

  #close(choice: Growing): void {
    if (choice.isClosed) return
    choice.isClosed = true
    const rest = choice.decoder.decode()
    const events = choice.output === null ? contentOf(rest) : [...choice.output.push(rest), ...choice.output.end()]
    this.#tell(choice, events)
    choice.finishReason = finishReasonOf(choice)
    if (this.#request.isStream) this.#send(() => this.#form.close(choice))
  }

  protected override finished(): void {
    for (const choice of this.#choices) this.#close(choice)
    const usage = totalUsage(this.#choices, this.#request.choiceCount)
    if (!this.#request.isStream) {
      this.respondJson(this.#form.whole(this.#choices, usage))
      return
    }
    this.#send(() => this.#form.end(this.#choices, usage))
    if (this.#form.endsWithDone) this.#write('data: [DONE]\n\n')
    this.#stream?.end()
  }

  protected override failedLate(error: ServerError): boolean {
    const stream = this.#stream
    if (stream === null) return false
    const body = this.#form.endsWithDone ? openAiErrorBody(error) : { ...openAiErrorBody(error).error, type: 'error' }
    stream.write(Buffer.from(eventText({ name: this.#form.endsWithDone ? '' : 'error', json: body })))
    if (this.#form.endsWithDone) stream.write(Buffer.from('data: [DONE]\n\n'))
    stream.end()
    return true
  }

  /** The events are made when those before them are: some forms number them. */
  #send(make: () => readonly WireEvent[]): void {
    let text = ''
    if (this.#stream === null) {
      this.#stream = this.answering.stream(new HttpResponse(200, 'text/event-stream', [], { headers: streamHeaders }))
      for (const event of this.#form.open(this.#choices)) text += eventText(event)
    }
    for (const event of make()) text += eventText(event)
    if (text !== '') this.#write(text)
  }

  #write(text: string): void {
    const stream = this.#stream as ResponseStream
    sendPiece(this, stream, stream.unreadBytes, () => stream.write(Buffer.from(text)))
  }

  giveUp(unreadBytes: number): void {
    const text = 'a stream of the OpenAI API is given up: its client does not read and the model does not wait'
    this.parts.log.warning(text, { model: this.modelName, unread_bytes: unreadBytes })
    this.cancelAll()
    this.#stream?.abort()
  }
}

const streamHeaders: readonly string[] = ['Cache-Control', 'no-cache']

const eventText = ({ name, json }: WireEvent): string =>
  `${name === '' ? '' : `event: ${name}\n`}data: ${JSON.stringify(json)}\n\n`

const newChoice = (index: number): Growing => ({
  index,
  content: '',
  reasoning: '',
  calls: [],
  logprobs: [],
  finishReason: 'stop',
  decoder: new TextDecoder(),
  output: null,
  usage: null,
  reason: '',
  isClosed: false,
})

const contentOf = (text: string): OutputEvent[] => (text === '' ? [] : [{ kind: 'content', text }])

function grow(choice: Choice, event: OutputEvent): void {
  if (event.kind === 'content') choice.content += event.text
  else if (event.kind === 'reasoning') choice.reasoning += event.text
  else if (event.kind === 'call') {
    choice.calls.push({ id: `call_${randomBytes(12).toString('hex')}`, name: event.name, arguments: '' })
  } else {
    const call = choice.calls[event.index]
    if (call !== undefined) call.arguments += event.text
  }
}

function finishReasonOf({ reason, calls }: Growing): FinishReason {
  if (reason === 'length') return 'length'
  return calls.length > 0 ? 'tool_calls' : 'stop'
}

function countTokens(choice: Growing, { inputTokens, outputTokens, cachedTokens }: TextAnswer): void {
  if (inputTokens < 0 && outputTokens < 0) return
  choice.usage ??= { inputTokens: 0, outputTokens: 0, cachedTokens: 0, reasoningTokens: 0 }
  // The prompt is counted in every answer, the tokens of the answer since the one before.
  if (inputTokens >= 0) choice.usage.inputTokens = inputTokens
  if (cachedTokens >= 0) choice.usage.cachedTokens = cachedTokens
  if (outputTokens > 0) choice.usage.outputTokens += outputTokens
}

/** A prompt with several choices counts once, as OpenAI counts it. */
function totalUsage(choices: readonly Growing[], choiceCount: number): TokenUsage | null {
  const total: TokenUsage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0, reasoningTokens: 0 }
  for (const { index, usage } of choices) {
    if (usage === null) return null
    if (index % choiceCount === 0) {
      total.inputTokens += usage.inputTokens
      total.cachedTokens += usage.cachedTokens
    }
    total.outputTokens += usage.outputTokens
  }
  return total
}

/** For models that make prompts of chats themselves, what was said last stands for the prompt. */
const lastText = ({ messages }: Chat): string => messages.at(-1)?.content ?? ''

/** What another server has already told apart. */
function deltaEvents(json: string): OutputEvent[] {
  const delta: unknown = JSON.parse(json)
  if (!isObject(delta)) return []
  const events: OutputEvent[] = []
  const reasoning = delta['reasoning_content'] ?? delta['reasoning']
  if (typeof reasoning === 'string' && reasoning !== '') events.push({ kind: 'reasoning', text: reasoning })
  const calls = Array.isArray(delta['tool_calls']) ? (delta['tool_calls'] as unknown[]) : []
  for (const call of calls) {
    if (!isObject(call) || !isObject(call['function'])) continue
    const index = typeof call['index'] === 'number' ? call['index'] : 0
    const { name, arguments: text } = call['function'] as { name?: unknown; arguments?: unknown }
    if (typeof name === 'string' && name !== '') events.push({ kind: 'call', index, name })
    if (typeof text === 'string' && text !== '') events.push({ kind: 'arguments', index, text })
  }
  return events
}
