// The sampling parameters of a request, with vLLM's names and meanings. Everything is checked before an engine sees it.

import { nearestWord } from '../base/nearest-word.ts'
import { ServerError } from '../base/server-error.ts'

export type SamplingParameters = {
  temperature: number
  topP: number
  /** 0: all tokens. */
  topK: number
  minP: number
  presencePenalty: number
  frequencyPenalty: number
  repetitionPenalty: number
  /** Null: another one for each request. */
  seed: number | null
  stop: readonly string[]
  stopTokenIds: readonly number[]
  ignoreEos: boolean
  maxTokens: number
  minTokens: number
  /** How many alternatives of each token are told; null: no logprobs are asked for. */
  logprobs: number | null
  logitBias: ReadonlyMap<number, number>
  skipSpecialTokens: boolean
  addSpecialTokens: boolean
  /** False: the whole prompt is computed for this request, whatever of it is in memory. */
  cachePrompt: boolean
  /** GBNF; '': none. */
  grammar: string
  /** The JSON text of a schema; '': none. */
  jsonSchema: string
  /** The name of an adapter; '': none. */
  lora: string
}

const samplingLimits = {
  textBytes: 256 * 1024,
  stopTexts: 64,
  stopTextLength: 1024,
  stopTokens: 256,
  biasedTokens: 1024,
  alternatives: 20,
  grammarLength: 64 * 1024,
} as const

type Bounds = { readonly least: number; readonly most: number; readonly isWhole: boolean }
type Reader = (value: unknown, key: string) => Partial<SamplingParameters>

const wholeToken = 0x7fffffff

function wrong(key: string, expected: string, found: unknown): ServerError {
  const shown =
    typeof found === 'string' ? `'${found.slice(0, 60)}'` : (JSON.stringify(found)?.slice(0, 60) ?? 'nothing')
  return ServerError.withoutStack('INVALID_ARG', `sampling_parameters: '${key}' must be ${expected}, got ${shown}`)
}

/** Triton's own example sends numbers as texts, so texts that are numbers are read as numbers. */
function numberOf(value: unknown, key: string, { least, most, isWhole }: Bounds): number {
  const isText = typeof value === 'string' && value.trim() !== ''
  const number = isText ? Number(value) : value
  const isGood =
    typeof number === 'number' &&
    (isWhole ? Number.isSafeInteger(number) : Number.isFinite(number)) &&
    number >= least &&
    number <= most
  if (isGood) return number
  throw wrong(key, `a ${isWhole ? 'whole ' : ''}number from ${least} to ${most}`, value)
}

function booleanOf(value: unknown, key: string): boolean {
  if (typeof value === 'boolean') return value
  if (value === 'true' || value === 'false') return value === 'true'
  throw wrong(key, 'true or false', value)
}

function listOf(value: unknown, key: string, most: number, what: string): readonly unknown[] {
  const list = typeof value === 'string' ? [value] : value
  if (!Array.isArray(list)) throw wrong(key, `a list of ${what}`, value)
  if (list.length > most) throw wrong(key, `a list of at most ${most} ${what}`, list.length)
  return list
}

function stopTextsOf(value: unknown): readonly string[] {
  return listOf(value, 'stop', samplingLimits.stopTexts, 'texts').map((text) => {
    const isGood = typeof text === 'string' && text !== '' && text.length <= samplingLimits.stopTextLength
    if (!isGood) throw wrong('stop', `texts of 1 to ${samplingLimits.stopTextLength} characters`, text)
    return text
  })
}

function biasOf(value: unknown): ReadonlyMap<number, number> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw wrong('logit_bias', 'an object from token ids to numbers', value)
  }
  const entries = Object.entries(value)
  if (entries.length > samplingLimits.biasedTokens) {
    throw wrong('logit_bias', `an object with at most ${samplingLimits.biasedTokens} tokens`, entries.length)
  }
  const bias = { least: -100, most: 100, isWhole: false }
  const token = { least: 0, most: wholeToken, isWhole: true }
  return new Map(entries.map(([id, by]) => [numberOf(id, 'logit_bias', token), numberOf(by, 'logit_bias', bias)]))
}

function textOf(value: unknown, key: string, most: number): string {
  if (typeof value === 'string' && value.length <= most) return value
  throw wrong(key, `a text of at most ${most} characters`, typeof value === 'string' ? value.length : value)
}

function schemaOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const isObject =
    typeof value === 'boolean' || typeof value === 'string' || (typeof value === 'object' && value !== null)
  if (!isObject || Array.isArray(value)) throw wrong('json_schema', 'a JSON schema', value)
  if (text.length > samplingLimits.grammarLength) {
    throw wrong('json_schema', `a JSON schema of at most ${samplingLimits.grammarLength} characters`, text.length)
  }
  return text
}

const number =
  (field: keyof SamplingParameters, least: number, most: number, isWhole = false): Reader =>
  (value, key) => ({ [field]: numberOf(value, key, { least, most, isWhole }) })
const boolean =
  (field: keyof SamplingParameters): Reader =>
  (value, key) => ({ [field]: booleanOf(value, key) })
const text =
  (field: keyof SamplingParameters, most: number): Reader =>
  (value, key) => ({ [field]: textOf(value, key, most) })

/** As vLLM has them: -1 and 0 both mean all tokens. */
const readTopK: Reader = (value, key) => ({
  topK: Math.max(0, numberOf(value, key, { least: -1, most: wholeToken, isWhole: true })),
})
const onlyOne: Reader = (value, key) => {
  numberOf(value, key, { least: 1, most: 1, isWhole: true })
  return {}
}
const anySeed = { least: Number.MIN_SAFE_INTEGER, most: Number.MAX_SAFE_INTEGER, isWhole: true }
const tokenId = { least: 0, most: wholeToken, isWhole: true }

const readers: Readonly<Record<string, Reader>> = {
  n: onlyOne,
  temperature: number('temperature', 0, 100),
  top_p: number('topP', 0, 1),
  top_k: readTopK,
  min_p: number('minP', 0, 1),
  presence_penalty: number('presencePenalty', -2, 2),
  frequency_penalty: number('frequencyPenalty', -2, 2),
  repetition_penalty: number('repetitionPenalty', 0.01, 100),
  seed: (value, key) => ({ seed: numberOf(value, key, anySeed) }),
  stop: (value) => ({ stop: stopTextsOf(value) }),
  stop_token_ids: (value, key) => ({
    stopTokenIds: listOf(value, key, samplingLimits.stopTokens, 'token ids').map((id) => numberOf(id, key, tokenId)),
  }),
  ignore_eos: boolean('ignoreEos'),
  max_tokens: number('maxTokens', 0, wholeToken, true),
  min_tokens: number('minTokens', 0, wholeToken, true),
  logprobs: number('logprobs', 0, samplingLimits.alternatives, true),
  logit_bias: (value) => ({ logitBias: biasOf(value) }),
  skip_special_tokens: boolean('skipSpecialTokens'),
  add_special_tokens: boolean('addSpecialTokens'),
  cache_prompt: boolean('cachePrompt'),
  grammar: text('grammar', samplingLimits.grammarLength),
  json_schema: (value) => ({ jsonSchema: schemaOf(value) }),
  lora: text('lora', 256),
}

/** vLLM's defaults. */
const defaults: SamplingParameters = {
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  seed: null,
  stop: [],
  stopTokenIds: [],
  ignoreEos: false,
  maxTokens: 16,
  minTokens: 0,
  logprobs: null,
  logitBias: new Map(),
  skipSpecialTokens: true,
  addSpecialTokens: true,
  cachePrompt: true,
  grammar: '',
  jsonSchema: '',
  lora: '',
}

/** Whether a parameter of a request, outside of `sampling_parameters`, is one for sampling. */
export const isSamplingKey = (key: string): boolean => Object.hasOwn(readers, key)

/** `text` is JSON. A null stands for the default. Throws INVALID_ARG that names the key and what it may be. */
export function parseSamplingParameters(source: string): SamplingParameters {
  if (source.length > samplingLimits.textBytes) {
    const most = `at most ${samplingLimits.textBytes} characters`
    throw ServerError.withoutStack('INVALID_ARG', `sampling_parameters must have ${most}, got ${source.length}`)
  }
  let parsed: unknown
  try {
    parsed = source.trim() === '' ? {} : JSON.parse(source)
  } catch {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `sampling_parameters must be a JSON object, got '${source.slice(0, 60)}'`,
    )
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `sampling_parameters must be a JSON object, got '${source.slice(0, 60)}'`,
    )
  }
  return readSamplingParameters(Object.entries(parsed))
}

export function readSamplingParameters(entries: Iterable<readonly [key: string, value: unknown]>): SamplingParameters {
  const parameters = { ...defaults }
  for (const [key, value] of entries) {
    const reader = Object.hasOwn(readers, key) ? readers[key] : undefined
    if (reader === undefined) throw unknownKey(key)
    if (value !== null) Object.assign(parameters, reader(value, key))
  }
  if (parameters.minTokens > parameters.maxTokens) {
    throw wrong('min_tokens', `at most max_tokens (${parameters.maxTokens})`, parameters.minTokens)
  }
  if (parameters.grammar !== '' && parameters.jsonSchema !== '') {
    throw ServerError.withoutStack('INVALID_ARG', "sampling_parameters: 'grammar' and 'json_schema' exclude each other")
  }
  return parameters
}

function unknownKey(key: string): ServerError {
  const known = Object.keys(readers)
  const meant = nearestWord(key, known)
  const hint = meant === null ? `known are ${known.join(', ')}` : `did you mean '${meant}'?`
  return ServerError.withoutStack('INVALID_ARG', `sampling_parameters: '${key.slice(0, 60)}' is not known; ${hint}`)
}
