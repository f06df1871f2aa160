// Requests whose answers of llama.cpp's own server were recorded: ours have every member, with the same types and statuses.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { projectRoot, startServerProcess, type ServerProcess } from '../server-process.ts'
import { formOf, missingInAnswer, type Form, type RecordedAnswer } from './wire-form.ts'

type Case = {
  readonly name: string
  readonly path: string
  readonly method?: string
  readonly body?: unknown
  readonly raw?: string
}

const folder = path.join(projectRoot, 'test/fixtures/openai')
const read = (file: string): unknown => JSON.parse(readFileSync(path.join(folder, 'wire', file), 'utf8'))
const cases = read('cases.json') as readonly Case[]
const { answers } = read('recorded.json') as { readonly answers: Readonly<Record<string, RecordedAnswer>> }

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
  server = await startServerProcess([`--model-repository=${path.join(folder, 'models')}`])
})
after(() => server?.stop())

async function answerTo({ path: target, method = 'POST', body, raw }: Case): Promise<RecordedAnswer> {
  const sent = raw ?? (body === undefined ? null : JSON.stringify(body))
  const answer = await fetch(server.url + target, { method, ...(method === 'GET' ? {} : { body: sent }) })
  const type = (answer.headers.get('content-type') ?? '').split(';')[0] ?? ''
  const text = await answer.text()
  if (type !== 'text/event-stream') return { status: answer.status, type, form: formOf(JSON.parse(text)) }
  const events = text.trim().split('\n\n').map((event): Form => (event === 'data: [DONE]' ? '[DONE]' : formOf(JSON.parse(event.slice('data: '.length))))) // prettier-ignore
  return { status: answer.status, type, events }
}

test('answers have the form of those of llama.cpp', async () => {
  const wrong: string[] = []
  let same = 0
  for (const one of cases) {
    const recorded = answers[one.name]
    if (recorded === undefined || one.name in differs) continue
    // llama.cpp counts in every stream of a completion, OpenAI when it is asked to.
    const isUncounted = one.name.startsWith('completion, stream')
    const missing = missingInAnswer(
      await answerTo(one),
      recorded,
      isUncounted ? apart.union(new Set(['.usage'])) : apart,
    )
    if (missing === '') same++
    else wrong.push(`${one.name}: ${missing}`)
  }
  assert.deepEqual(wrong, [])
  assert.ok(same >= 100, `${same} cases`)
})
