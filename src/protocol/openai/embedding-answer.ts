import { badRequest } from './openai-problem.ts'

type Vectors = { readonly values: Float32Array; readonly width: number }

/** The answer to a call of embeddings. Throws OpenAiProblem when the vectors are shorter than was asked for. */
export function embeddingAnswer(
  { values, width }: Vectors,
  request: { readonly model: string; readonly isBase64: boolean; readonly dimensions: number | null },
  inputTokens: number,
): unknown {
  const count = width === 0 ? 0 : values.length / width
  const wanted = request.dimensions ?? width
  if (wanted > width) {
    throw badRequest(
      `'dimensions' is ${wanted}, and embeddings of model '${request.model}' have ${width}`,
      'dimensions',
    )
  }
  const data = Array.from({ length: count }, (_, index) => {
    const whole = values.subarray(index * width, (index + 1) * width)
    const vector = wanted === width ? whole : shortened(whole, wanted)
    return { object: 'embedding', index, embedding: request.isBase64 ? base64Of(vector) : [...vector] }
  })
  const tokens = Math.max(0, inputTokens)
  return { object: 'list', data, model: request.model, usage: { prompt_tokens: tokens, total_tokens: tokens } }
}

/** The first numbers, made as long as 1 again: what OpenAI does for fewer dimensions. */
function shortened(vector: Float32Array, length: number): Float32Array {
  const first = vector.slice(0, length)
  const norm = Math.hypot(...first)
  return norm === 0 ? first : first.map((value) => value / norm)
}

/** Little-endian, whatever the machine is. */
function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4)
  vector.forEach((value, index) => bytes.writeFloatLE(value, index * 4))
  return bytes.toString('base64')
}

type RankedRequest = {
  readonly model: string
  readonly documents: readonly string[]
  readonly topCount: number
}

/** The best documents first. */
export function rerankAnswer(
  id: string,
  request: RankedRequest,
  scores: readonly number[],
  inputTokens: number,
): unknown {
  const results = scores
    .map((score, index) => ({ index, document: { text: request.documents[index] ?? '' }, relevance_score: score }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, request.topCount)
  const tokens = Math.max(0, inputTokens)
  return { id, object: 'list', model: request.model, usage: { prompt_tokens: tokens, total_tokens: tokens }, results }
}
