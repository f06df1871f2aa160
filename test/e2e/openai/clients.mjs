// The official client of OpenAI for Node: `node clients.mjs <entry of the package> <base URL>` prints what it got.

import { pathToFileURL } from 'node:url'

const [entry, baseURL] = process.argv.slice(2)
const { default: OpenAI } = await import(pathToFileURL(entry).href)
const client = new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 })
const model = 'toy'
const say = (text) => [{ role: 'user', content: `say:${JSON.stringify(text)}` }]
const found = { models: [], pieces: [] }

for await (const { id } of client.models.list()) found.models.push(id)
found.content = (
  await client.chat.completions.create({ model, messages: say('Hello there friend') })
).choices[0].message.content
for await (const chunk of await client.chat.completions.create({
  model,
  messages: say('Hello there friend'),
  stream: true,
})) {
  found.pieces.push(chunk.choices[0].delta.content ?? null)
}
const stream = client.chat.completions.stream({
  model,
  messages: say('a b c'),
  stream_options: { include_usage: true },
})
found.usage = (await stream.finalChatCompletion()).usage.completion_tokens

let isAsked = false
const runner = client.chat.completions.runTools({
  model,
  messages: say('<tool_call>{"name": "add", "arguments": {"a": 4}}</tool_call>'),
  tools: [
    {
      type: 'function',
      function: {
        name: 'add',
        parse: JSON.parse,
        parameters: { type: 'object', properties: {} },
        function: ({ a }) => {
          isAsked = true
          return `say:"it is ${a}"`
        },
      },
    },
  ],
})
found.finalContent = await runner.finalContent()
if (!isAsked) throw new Error('the tool was not called')

const forever = [{ role: 'user', content: 'forever' }]
const endless = await client.chat.completions.create({ model, messages: forever, max_tokens: 1e9, stream: true })
for await (const _ of endless) {
  endless.controller.abort()
  break
}
found.aborted = endless.controller.signal.aborted
found.embedding = (await client.embeddings.create({ model, input: 'a' })).data[0].embedding.length
found.response = (await client.responses.create({ model, input: 'say:"Hello there"' })).output_text
try {
  await client.chat.completions.create({ model, messages: say('x'), temperature: 9 })
} catch (error) {
  found.error = [error.constructor.name, error.param, error.status]
}
console.log(JSON.stringify(found))
