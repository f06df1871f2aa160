import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ChatModels, ModelChat } from '../../model/chat-models.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { ChatOutput, type OutputEvent } from '../../protocol/openai/chat-output.ts'
import { forcedSchema } from '../../protocol/openai/forced-tools.ts'
import type { Chat } from '../../protocol/openai/generation-request.ts'
import { chatOutputSettings, chatPrompt, templateOf } from './chat-prompt.ts'
import { ChatTemplates } from './chat-templates.ts'

/** Chats for models behind a router: the same templates, tools and readers as for models that clients name themselves. */
export class TemplateChats implements ChatModels {
  /** The Engine comes as a function, because backends are made before the Engine. */
  readonly #engine: () => Engine
  readonly #templates: ChatTemplates

  constructor(parts: { readonly engine: () => Engine; readonly clock: Clock; readonly log: Log }) {
    this.#engine = parts.engine
    this.#templates = new ChatTemplates(parts)
  }

  find(name: string): ModelVersion | null {
    const engine = this.#engine()
    return engine.isModelReady(name, '') ? engine.findVersion(name, '') : null
  }

  async prepare(model: ModelVersion, json: string): Promise<ModelChat> {
    const chat = parsed(json)
    const version = await this.#awake(model)
    const text = await new Promise<string>((resolve, reject) => {
      this.#templates.render({ template: templateOf(version), fields: chatPrompt(chat, version) }, (error, rendered) =>
        // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- it is what the render said
        rendered === null ? reject(error) : resolve(rendered),
      )
    })
    const output = new ChatOutput(chatOutputSettings(chat, text))
    return {
      text,
      schema: forcedSchema(chat.tools, chat.toolChoice, chat.callsOnce),
      read: (piece, isEnd) => told(isEnd ? [...output.push(piece), ...output.end()] : output.push(piece)),
    }
  }

  close(): void {
    this.#templates.close()
  }

  /** The template comes with the model's files. */
  async #awake(model: ModelVersion): Promise<ModelVersion> {
    const engine = this.#engine()
    if ((engine.servedModel(model.name)?.sleeping ?? null) === null) return model
    await engine.load(model.name)
    return engine.findVersion(model.name, model.version)
  }
}

/** The front end writes the input itself. A client of another protocol may write anything. */
function parsed(json: string): Chat {
  try {
    const {
      messages,
      tools = [],
      toolChoice = 'auto',
      templateFields = {},
      ...flags
    } = JSON.parse(json) as Partial<Chat>
    if (Array.isArray(messages) && Array.isArray(tools)) {
      const { separatesReasoning = true, continuesLast = false, callsOnce = false } = flags
      return { messages, tools, toolChoice, templateFields, separatesReasoning, continuesLast, callsOnce }
    }
  } catch {
    // The refusal below says it.
  }
  throw ServerError.withoutStack(
    'INVALID_ARG',
    "input 'chat_request' must be the JSON text of an object with a list 'messages'",
  )
}

function told(events: readonly OutputEvent[]): ReturnType<ModelChat['read']> {
  let content = ''
  let reasoning = ''
  const calls: object[] = []
  for (const event of events) {
    if (event.kind === 'content') content += event.text
    else if (event.kind === 'reasoning') reasoning += event.text
    else if (event.kind === 'call') calls.push({ index: event.index, function: { name: event.name } })
    else calls.push({ index: event.index, function: { arguments: event.text } })
  }
  const delta =
    calls.length === 0 && reasoning === '' ? '' : JSON.stringify({ reasoning_content: reasoning, tool_calls: calls })
  return { content, delta }
}
