import { readParameter } from '../../config/model-parameters.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { ChatOutputSettings } from '../../protocol/openai/chat-output.ts'
import type { Chat } from '../../protocol/openai/generation-request.ts'
import type { JsonObject } from '../../protocol/openai/request-fields.ts'

/** For a model that brings no template: who speaks, then what is said. */
const plainTemplate = `{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}`

/** What config.pbtxt says comes before what the model's files say. */
export function templateOf({ config, languageFacts }: ModelVersion): string {
  return readParameter(config, 'chat_template') ?? languageFacts?.chatTemplate ?? plainTemplate
}

/** What a chat template can use, as in transformers. */
export function chatPrompt(chat: Chat, { languageFacts }: ModelVersion): JsonObject {
  const { messages, tools, toolChoice, templateFields, continuesLast } = chat
  return {
    messages,
    ...(tools.length === 0 || toolChoice === 'none' ? {} : { tools }),
    add_generation_prompt: !continuesLast,
    bos_token: languageFacts?.bosToken ?? '',
    eos_token: languageFacts?.eosToken ?? '',
    ...templateFields,
  }
}

/** How the answer to a chat is read. `prompt` is what the template made of the chat. */
export const chatOutputSettings = (chat: Chat, prompt: string): ChatOutputSettings => ({
  toolNames: new Set(chat.toolChoice === 'none' ? [] : chat.tools.map((tool) => tool.function.name)),
  separatesReasoning: chat.separatesReasoning,
  startsInReasoning: /<think>\s*$/.test(prompt.slice(-64)),
  onlyTool: typeof chat.toolChoice === 'object' ? chat.toolChoice.name : '',
  callsOnce: chat.callsOnce,
})
