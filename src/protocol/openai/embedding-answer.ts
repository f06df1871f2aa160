import { badRequest } from './openai-problem.ts'

type Vectors = { readonly values: Float32Array; readonly width: number }

/** The answer to a call of embeddings, for `jsonInSteps`. Throws OpenAiProblem when the vectors are shorter than was asked for. */
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
  const tokens = Math.max(0, inputTokens)
  const data = rowsOf({ values, width }, count, wanted, request.isBase64)
  return { object: 'list', data, model: request.model, usage: { prompt_tokens: tokens, total_tokens: tokens } }
}

/** Each is made when it is written. */
function* rowsOf({ values, width }: Vectors, count: number, wanted: number, isBase64: boolean): Generator<object> {
  for (let index = 0; index < count; index++) {
    const whole = values.subarray(index * width, (index + 1) * width)
    const vector = wanted === width ? whole : shortened(whole, wanted)
    yield { object: 'embedding', index, embedding: isBase64 ? base64Of(vector) : vector }
  }
}

/** The first numbers, made as long as 1 again: what OpenAI does for fewer dimensions. */
function shortened(vector: Float32Array, length: number): Float32Array {
  const first = vector.slice(0, length)
  const norm = Math.hypot(...first)
  return norm === 0 ? first : first.map((value) => value / norm)
}

/** Little-endian, as the hosts are. */
const base64Of = ({ buffer, byteOffset, byteLength }: Float32Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64')

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
