// The official client of OpenAI for Node against a real language model: `node real-model.mjs <entry of the package> <base URL>`.

import { pathToFileURL } from 'node:url'

const [entry, baseURL] = process.argv.slice(2)
const { default: OpenAI } = await import(pathToFileURL(entry).href)
const client = new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 })
const sea = [{ role: 'user', content: 'Write one sentence about the sea.' }]
const paris = [{ role: 'user', content: 'What is the weather in Paris?' }]
const ask = (more = {}) =>
  client.chat.completions.create({ model: 'small', messages: sea, temperature: 0, max_tokens: 8, ...more })

const found = {}
found.said = (await ask()).choices[0].message.content
found.pieces = ''
for await (const { choices, usage } of await ask({ stream: true, stream_options: { include_usage: true } })) {
  found.pieces += choices[0]?.delta.content ?? ''
  if (usage !== null) found.tokens = usage.completion_tokens
}
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [{ type: 'function', function: { name: 'get_weather', parameters } }]
const called = await ask({ model: 'chat', messages: paris, tools, tool_choice: 'required', max_tokens: 60 })
found.tool = called.choices[0].message.tool_calls[0].function.name
const schema = { type: 'object', properties: { age: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['age'] }
const response_format = { type: 'json_schema', json_schema: { name: 'person', schema } }
const person = await ask({ response_format, max_tokens: 30 })
found.age = typeof JSON.parse(person.choices[0].message.content).age
const several = await ask({ n: 2, temperature: 1, seed: 3, logprobs: true, top_logprobs: 1 })
found.choices = several.choices.length
found.logprobs = several.choices[0].logprobs.content.length
found.width = (await client.embeddings.create({ model: 'vectors', input: 'a cat' })).data[0].embedding.length
found.routed = [(await ask({ model: 'chat' })).model, (await ask({ model: 'chat', max_tokens: 40, stop: [' '] })).model]
try {
  await ask({ messages: [{ role: 'user', content: 'word '.repeat(2000) }] })
} catch (error) {
  found.error = [error.constructor.name, error.code, error.status]
}
console.log(JSON.stringify(found))
