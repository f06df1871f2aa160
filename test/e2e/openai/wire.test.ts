// Requests whose answers of llama.cpp's own server were recorded: ours have every member, with the same types and statuses.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { projectRoot, startServerProcess, type ServerProcess } from '../server-process.ts'
import { replay } from './wire-cases.ts'

/** Members that are llama.cpp's own, or whose type differs on purpose. */
const apart = new Set([
  'timings',
  // Ids of tokens beside their texts, which OpenAI does not have.
  '.choices[].logprobs.content[].id',
  '.choices[].logprobs.content[].top_logprobs[].id',
  // OpenAI's codes are words, llama.cpp repeats the status.
  '.error.code',
  '.error.n_ctx',
  '.error.n_prompt_tokens',
  '.data[].encoding_format',
  '.data[].aliases',
  '.data[].architecture',
  '.data[].tags',
  '.data[].meta',
  '.models',
])

/** Cases that are answered otherwise on purpose. */
const differs: Readonly<Record<string, string>> = {
  'chat, whole: long word': 'the recorded server had a smaller context',
  'chat, stream: long word': 'the recorded server had a smaller context',
  'completion, whole: logprobs': "llama.cpp has the form of chats there, OpenAI's completions have lists",
  'completion, stream: logprobs': "llama.cpp has the form of chats there, OpenAI's completions have lists",
  'chat, whole: logprobs': 'llama.cpp tells alternatives that nobody asked for',
  'chat, stream: logprobs': 'llama.cpp tells alternatives that nobody asked for',
  'completion, stream: usage': 'llama.cpp counts in the last piece, OpenAI in one of its own',
  'bad chat: no role': '400 here, 500 there',
  'bad chat: image': '400 here, 500 there',
  'bad chat: audio': '400 here, 500 there',
  'bad chat: tools a text': '400 here, 500 there',
  'bad chat: wrong tool_choice': '400 here, ignored there',
  'bad chat: grammar and schema': '400 here, ignored there',
}

let server: ServerProcess
before(async () => {
  server = await startServerProcess([`--model-repository=${path.join(projectRoot, 'test/fixtures/openai/models')}`])
})
after(() => server?.stop())

test('answers have the form of those of llama.cpp', async () => {
  // llama.cpp counts in every stream of a completion, OpenAI when it is asked to.
  const uncounted = apart.union(new Set(['.usage']))
  const { same, wrong } = await replay(server.url, {
    folder: 'wire',
    apart: (name) => (name.startsWith('completion, stream') ? uncounted : apart),
    differs,
  })
  assert.deepEqual(wrong, [])
  assert.ok(same >= 100, `${same} cases`)
})
