// Batches with the official client of OpenAI for Node: `node batches.mjs <entry of the package> <base URL>` prints what it got.

import { pathToFileURL } from 'node:url'

const [entry, baseURL] = process.argv.slice(2)
const { default: OpenAI, toFile } = await import(pathToFileURL(entry).href)
const client = new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 })
const url = '/v1/chat/completions'
const line = (id, content, model = 'toy') =>
  JSON.stringify({ custom_id: id, method: 'POST', url, body: { model, messages: [{ role: 'user', content }] } })
const upload = async (lines) =>
  client.files.create({ purpose: 'batch', file: await toFile(Buffer.from(lines.join('\n')), 'calls.jsonl') })
const refusalOf = async (call) => {
  try {
    await call()
  } catch (error) {
    return [error.status, error.message]
  }
  return null
}
const begin = (file, endpoint = url) =>
  client.batches.create({ input_file_id: file.id, endpoint, completion_window: '24h', metadata: { of: 'test' } })
const ended = async (id) => {
  for (;;) {
    const batch = await client.batches.retrieve(id)
    if (['completed', 'failed', 'cancelled'].includes(batch.status)) return batch
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

const found = {}
const file = await upload([line('a', 'say:"first"'), line('b', 'say:"second"'), line('c', 'say:"third"', 'nobody')])
found.file = [file.filename, file.purpose, file.bytes > 0, (await client.files.retrieve(file.id)).id === file.id]
const batch = await ended((await begin(file)).id)
found.batch = [batch.status, batch.request_counts, batch.metadata, batch.endpoint]
const text = await (await client.files.content(batch.output_file_id)).text()
found.answers = text
  .trim()
  .split('\n')
  .map((one) => JSON.parse(one))
  .map(({ custom_id, response, error }) => [
    custom_id,
    response?.body.choices[0].message.content ?? null,
    error?.code ?? null,
  ])
found.listed = []
for await (const one of client.batches.list({ limit: 1 })) found.listed.push(one.id === batch.id)
found.input = (await (await client.files.content(file.id)).text()).split('\n').length
found.cancelTwice = await refusalOf(() => client.batches.cancel(batch.id))
found.twice = await refusalOf(async () => begin(await upload([line('a', 'x'), line('a', 'y')])))
found.wrongPath = await refusalOf(() => begin(file, '/v1/embeddings'))
found.deep = await refusalOf(async () => begin(await upload([line('a', '['), `{"a":${'['.repeat(300)}`])))
found.noLines = await refusalOf(async () => begin(await upload([''])))
found.purpose = await refusalOf(async () =>
  client.files.create({ purpose: 'fine-tune', file: await toFile(Buffer.from('x'), 'x') }),
)
found.metadata = await refusalOf(() =>
  client.batches.create({
    input_file_id: file.id,
    endpoint: url,
    completion_window: '24h',
    metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v'])),
  }),
)
found.deleted = (await client.files.delete(file.id)).deleted
found.gone = await refusalOf(() => client.files.retrieve(file.id))
console.log(JSON.stringify(found))
