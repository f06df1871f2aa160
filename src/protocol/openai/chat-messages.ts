// The messages and tools of a chat, as templates want them: plain text contents, arguments of tool calls as objects.

import { badRequest, unsupported } from './openai-problem.ts'
import { isObject, RequestFields, type JsonObject } from './request-fields.ts'
import { checkSchema } from './sampling-parameters.ts'

export type ChatMessage = {
  readonly role: string
  readonly content: string
  readonly name?: string
  readonly tool_call_id?: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly ToolCallOfMessage[]
}

type ToolCallOfMessage = {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: unknown }
}

export type ChatTool = {
  readonly type: 'function'
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: JsonObject }
}

/** 'auto': the model may call tools; 'required': it must call one; a name: it must call that one. */
export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string }

const mostMessages = 4096
const mostParts = 1024
const mostTools = 128

const roles: readonly string[] = ['system', 'developer', 'user', 'assistant', 'tool', 'function']

/** Throws OpenAiProblem. */
export function readMessages(fields: RequestFields): ChatMessage[] {
  const given = fields.list('messages', mostMessages)
  if (given === null || given.length === 0) {
    throw badRequest("you must provide 'messages', a list with at least one message", 'messages')
  }
  return given.map((message, index) => {
    const path = `messages[${index}]`
    if (!isObject(message)) throw badRequest(`'${path}' must be an object with 'role' and 'content'`, path)
    return readMessage(new RequestFields(message, path))
  })
}

function readMessage(fields: RequestFields): ChatMessage {
  const role = fields.requiredText('role')
  if (!roles.includes(role)) throw fields.wrong('role', `one of ${roles.map((each) => `'${each}'`).join(', ')}`)
  const toolCalls = readToolCalls(fields)
  if (!fields.has('content') && !(role === 'assistant')) {
    throw badRequest(`you must provide '${fields.param('content')}'`, fields.param('content'))
  }
  const content = readContent(fields)
  const name = fields.text('name')
  const toolCallId = fields.text('tool_call_id')
  const reasoning = fields.text('reasoning_content') ?? fields.text('reasoning')
  return {
    // Templates know `system`; `developer` is OpenAI's newer word for it.
    role: role === 'developer' ? 'system' : role === 'function' ? 'tool' : role,
    content,
    ...(name === null ? {} : { name }),
    ...(toolCallId === null ? {} : { tool_call_id: toolCallId }),
    ...(reasoning === null ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
  }
}

/** The text of all parts. */
function readContent(fields: RequestFields): string {
  const content = fields.raw('content')
  if (content === null || typeof content === 'string') return content ?? ''
  if (!Array.isArray(content)) throw fields.wrong('content', 'a string or a list of parts')
  const parts = fields.list('content', mostParts) ?? []
  return parts.map((part, index) => readPart(part, `${fields.param('content')}[${index}]`)).join('\n')
}

function readPart(part: unknown, path: string): string {
  if (typeof part === 'string') return part
  if (!isObject(part)) throw badRequest(`'${path}' must be an object with 'type'`, path)
  const fields = new RequestFields(part, path)
  const type = fields.requiredText('type')
  if (type === 'text' || type === 'input_text' || type === 'output_text') {
    const text = fields.text('text')
    if (text === null) throw badRequest(`you must provide '${fields.param('text')}'`, fields.param('text'))
    return text
  }
  if (type === 'refusal') return fields.text('refusal') ?? ''
  throw badRequest(
    `'${path}' has the type '${type.slice(0, 40)}': the models of this server take text`,
    path,
    'unsupported_content',
  )
}

function readToolCalls(fields: RequestFields): ToolCallOfMessage[] {
  const given = fields.list('tool_calls', mostTools) ?? []
  return given.map((call, index) => {
    const path = `${fields.param('tool_calls')}[${index}]`
    if (!isObject(call)) throw badRequest(`'${path}' must be an object`, path)
    const own = new RequestFields(call, path)
    const called = own.inner('function')
    if (called === null) throw badRequest(`you must provide '${path}.function'`, path)
    const args = called.raw('arguments')
    return {
      id: own.text('id') ?? '',
      type: 'function',
      function: {
        name: called.requiredText('name'),
        arguments: typeof args === 'string' ? parsedOrText(args) : (args ?? {}),
      },
    }
  })
}

/** Templates write arguments as JSON. A text that is no JSON stays a text. */
function parsedOrText(text: string): unknown {
  try {
    const parsed: unknown = JSON.parse(text)
    return isObject(parsed) ? parsed : text
  } catch {
    return text
  }
}

/** Throws OpenAiProblem. */
export function readTools(fields: RequestFields): { readonly tools: ChatTool[]; readonly choice: ToolChoice } {
  const given = fields.list('tools', mostTools) ?? []
  const tools = given.map((tool, index) => readTool(tool, `tools[${index}]`))
  return { tools, choice: readToolChoice(fields, tools) }
}

function readTool(tool: unknown, path: string): ChatTool {
  if (!isObject(tool)) throw badRequest(`'${path}' must be an object with 'type' and 'function'`, path)
  const fields = new RequestFields(tool, path)
  const type = fields.requiredText('type')
  if (type !== 'function')
    throw unsupported(`'${path}' has the type '${type.slice(0, 40)}': tools of type 'function' are known`, path)
  // The Responses API has the members of the function beside the type.
  const called = fields.inner('function') ?? fields
  const name = called.requiredText('name')
  if (!/^[\w.-]{1,128}$/.test(name))
    throw called.wrong('name', 'of letters, digits, dash, dot and underscore, at most 128')
  const description = called.text('description')
  const parameters = called.object('parameters')
  return {
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      ...(parameters === null ? {} : { parameters: checkSchema(parameters, called.param('parameters')) }),
    },
  }
}

function readToolChoice(fields: RequestFields, tools: readonly ChatTool[]): ToolChoice {
  const given = fields.raw('tool_choice')
  if (given === null) return tools.length === 0 ? 'none' : 'auto'
  if (given === 'none' || given === 'auto') return tools.length === 0 ? 'none' : given
  if (given === 'required') {
    if (tools.length > 0) return given
    throw badRequest("'tool_choice' is 'required' and 'tools' is empty", 'tool_choice')
  }
  if (!isObject(given)) throw fields.wrong('tool_choice', "'none', 'auto', 'required' or a function")
  const choice = new RequestFields(given, 'tool_choice')
  const name = (choice.inner('function') ?? choice).requiredText('name')
  if (tools.some((tool) => tool.function.name === name)) return { name }
  throw badRequest(`'tool_choice' names the function '${name.slice(0, 60)}', which is not in 'tools'`, 'tool_choice')
}
