// The call of the chat, for a terminal and two languages. Pure functions.

import { keyOption, quoted } from './call-snippets.ts'
import { chatBody, type ChatMessage, type ChatSettings } from './chat-call.ts'

type SnippetServer = { readonly origin: string; readonly hasKey: boolean }

type Snippet = (
  server: SnippetServer,
  model: string,
  messages: readonly ChatMessage[],
  settings: ChatSettings,
) => string

export const chatCurl: Snippet = ({ origin, hasKey }, model, messages, settings) =>
  `curl -N ${quoted(`${origin}/v1/chat/completions`)}${keyOption(hasKey)} -H 'content-type: application/json' -d ${quoted(JSON.stringify(chatBody(model, messages, settings), null, 1))}`

const pythonValue = (value: unknown): string =>
  typeof value === 'boolean' ? (value ? 'True' : 'False') : JSON.stringify(value)

export const chatPython: Snippet = ({ origin, hasKey }, model, messages, settings) =>
  [
    ...(hasKey ? ['import os', ''] : []),
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key=${hasKey ? 'os.environ["KEY"]' : '"none"'})`,
    'stream = client.chat.completions.create(',
    ...Object.entries(chatBody(model, messages, settings)).map(([name, value]) => `    ${name}=${pythonValue(value)},`),
    ')',
    'for chunk in stream:',
    '    print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ].join('\n')

export const chatTypescript: Snippet = ({ origin, hasKey }, model, messages, settings) =>
  [
    "import OpenAI from 'openai'",
    '',
    `const client = new OpenAI({ baseURL: ${JSON.stringify(`${origin}/v1`)}, apiKey: ${hasKey ? 'process.env.KEY' : "'none'"} })`,
    'const stream = await client.chat.completions.create({',
    ...Object.entries(chatBody(model, messages, settings)).map(
      ([name, value]) => `  ${name}: ${JSON.stringify(value)},`,
    ),
    '})',
    "for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '')",
  ].join('\n')
