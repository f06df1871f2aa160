// The body of the Responses API → the same GenerationRequest as a chat.

import { readMessages, readTools, type ChatMessage } from './chat-messages.ts'
import type { GenerationRequest } from './generation-request.ts'
import { describedValue } from '../../base/described-value.ts'
import { badRequest, unsupported } from './openai-problem.ts'
import { readMetadata } from './request-metadata.ts'
import { isObject, RequestFields, type JsonObject } from './request-fields.ts'
import { readMaxTokens, readSampling } from './sampling-parameters.ts'

const mostItems = 4096

/** What this server does not keep or run. */
const refused: Readonly<Record<string, string>> = {
  previous_response_id: 'answers are not kept: send the conversation in "input"',
  conversation: 'conversations are not kept: send the conversation in "input"',
  prompt: 'prompts are not kept: send the text in "input"',
}

/** Throws OpenAiProblem. */
export function readResponsesRequest(body: JsonObject): GenerationRequest {
  const fields = new RequestFields(body)
  const model = fields.requiredText('model')
  for (const [name, why] of Object.entries(refused)) {
    if (fields.has(name)) throw unsupported(`'${name}' is not supported: ${why}`, name)
  }
  if (fields.flag('background') === true)
    throw unsupported("'background' is not supported: the answer is not kept", 'background')
  // The answer repeats them, three times in a stream.
  readMetadata(body['metadata'])
  const { tools, choice } = readTools(fields)
  return {
    model,
    prompts: [],
    chat: {
      messages: readInput(fields),
      tools,
      toolChoice: choice,
      callsOnce: fields.flag('parallel_tool_calls') === false,
      templateFields: fields.object('chat_template_kwargs') ?? {},
      separatesReasoning: true,
      continuesLast: false,
    },
    choiceCount: 1,
    isStream: fields.flag('stream') ?? false,
    includesUsage: true,
    sampling: readSampling(new RequestFields({ ...body, response_format: formatOf(fields) })),
    maxTokens: readMaxTokens(fields, 'max_output_tokens'),
    logprobs: null,
    echoes: false,
    suffix: '',
    user: fields.text('user') ?? '',
  }
}

/** `text.format` has the members of the schema beside its type. */
function formatOf(fields: RequestFields): unknown {
  const format = fields.inner('text')?.object('format') ?? null
  if (format === null || format['type'] !== 'json_schema') return format
  return { type: 'json_schema', json_schema: { name: format['name'], schema: format['schema'] } }
}

function readInput(fields: RequestFields): ChatMessage[] {
  const instructions = fields.text('instructions')
  const given = fields.raw('input')
  const items = typeof given === 'string' ? [{ role: 'user', content: given }] : fields.list('input', mostItems)
  if (items === null || items.length === 0) throw badRequest("you must provide 'input'", 'input')
  const messages = items.map((item, index) => messageOf(item, `input[${index}]`))
  const first = instructions === null ? [] : [{ role: 'system', content: instructions }]
  return readMessages(new RequestFields({ messages: [...first, ...messages] }))
}

/** An item of the Responses API as a message of a chat. */
function messageOf(item: unknown, path: string): unknown {
  if (!isObject(item)) throw badRequest(`'${path}' must be an object`, path)
  const type = item['type'] ?? 'message'
  if (type === 'message') return { role: item['role'], content: item['content'] }
  if (type === 'function_call') {
    const call = {
      id: item['call_id'],
      type: 'function',
      function: { name: item['name'], arguments: item['arguments'] },
    }
    return { role: 'assistant', content: null, tool_calls: [call] }
  }
  if (type === 'function_call_output') {
    return { role: 'tool', tool_call_id: item['call_id'], content: item['output'] }
  }
  if (type === 'reasoning') return { role: 'assistant', content: '' }
  throw unsupported(`'${path}' is ${describedValue(type)}, which a text model does not take`, path)
}
