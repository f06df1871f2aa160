// The call of the chat, for a terminal and two languages. Pure functions.

import { quoted } from './call-snippets.ts'
import { chatBody, type ChatMessage, type ChatSettings } from './chat-call.ts'

type Snippet = (origin: string, model: string, messages: readonly ChatMessage[], settings: ChatSettings) => string

export const chatCurl: Snippet = (origin, model, messages, settings) =>
  `curl -N ${quoted(`${origin}/v1/chat/completions`)} -H 'content-type: application/json' -d ${quoted(JSON.stringify(chatBody(model, messages, settings), null, 1))}`

export const chatPython: Snippet = (origin, model, messages, { temperature, mostTokens }) =>
  [
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key="none")`,
    'stream = client.chat.completions.create(',
    `    model=${JSON.stringify(model)},`,
    `    messages=${JSON.stringify(messages)},`,
    `    temperature=${temperature}, max_tokens=${mostTokens}, stream=True,`,
    ')',
    'for chunk in stream:',
    '    print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ].join('\n')

export const chatTypescript: Snippet = (origin, model, messages, { temperature, mostTokens }) =>
  [
    "import OpenAI from 'openai'",
    '',
    `const client = new OpenAI({ baseURL: ${JSON.stringify(`${origin}/v1`)}, apiKey: 'none' })`,
    'const stream = await client.chat.completions.create({',
    `  model: ${JSON.stringify(model)},`,
    `  messages: ${JSON.stringify(messages)},`,
    `  temperature: ${temperature}, max_tokens: ${mostTokens}, stream: true,`,
    '})',
    "for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '')",
  ].join('\n')
