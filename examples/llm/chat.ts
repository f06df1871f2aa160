// Talks to a language model and finds the text that is nearest to another one, by the OpenAI API:
// npx node examples/llm/chat.ts "Why is the sky blue?"

const base = process.env['GALATEA_URL'] ?? 'http://localhost:8000'

type Chunk = { readonly choices: readonly { readonly delta: { readonly content?: string | null } }[] }

/** The answer in pieces, as the model says them. */
export async function* chat(url: string, question: string, maxTokens = 128): AsyncGenerator<string> {
  const messages = [{ role: 'user', content: question }]
  const body = { model: 'smol', messages, stream: true, temperature: 0, max_tokens: maxTokens }
  const response = await post(`${url}/v1/chat/completions`, body)
  let text = ''
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const events = (text + piece).split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) {
      const data = event.slice('data: '.length)
      if (data === '[DONE]') return
      const said = (JSON.parse(data) as Chunk).choices[0]?.delta.content
      if (typeof said === 'string' && said !== '') yield said
    }
  }
}

/** The texts with how near their meaning is to that of the question, the nearest first. */
export async function nearest(url: string, question: string, texts: readonly string[]): Promise<[string, number][]> {
  const response = await post(`${url}/v1/embeddings`, { model: 'vectors', input: [question, ...texts] })
  const { data } = (await response.json()) as { data: { embedding: number[] }[] }
  const [asked = [], ...vectors] = data.map(({ embedding }) => embedding)
  const cosine = (vector: readonly number[]): number => vector.reduce((sum, x, at) => sum + x * (asked[at] ?? 0), 0)
  return vectors
    .map((vector, at): [string, number] => [texts[at] ?? '', cosine(vector)])
    .toSorted((a, b) => b[1] - a[1])
}

async function post(url: string, body: object): Promise<Response> {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
  if (response.ok) return response
  throw new Error(`${url} answered ${response.status}: ${await response.text()}`)
}

if (import.meta.main) {
  const question = process.argv[2] ?? 'Why is the sky blue?'
  for await (const piece of chat(base, question)) process.stdout.write(piece)
  process.stdout.write('\n\n')
  const texts = ['It is so sunny outside!', 'He drove to the stadium.', 'The sky is full of light.']
  for (const [text, near] of await nearest(base, question, texts)) process.stdout.write(`${near.toFixed(2)} ${text}\n`)
}
