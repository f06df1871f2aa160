// The members of a request that say how tokens are chosen → `sampling_parameters`, with vLLM's names.

import { badRequest, unsupported } from './openai-problem.ts'
import type { JsonObject, RequestFields } from './request-fields.ts'

/** JSON, as the model gets it. */
export type SamplingParameters = Record<string, unknown>

/** OpenAI takes 4. Each is looked for in every piece of text. */
const mostStopStrings = 32
const longestStopString = 1024
const mostStopTokens = 64
const mostLogitBiases = 4096
const mostGrammarBytes = 64 * 1024
/** Texts of which the answer is one. */
const mostChoices = 256
/** A schema nests no deeper than this. */
const deepestSchema = 64
const largestToken = 2 ** 31 - 1

type NumberRule = readonly [name: string, kind: 'number' | 'integer', least: number, most: number]

/** What OpenAI has, and what vLLM and llama.cpp take beside it under the same names. */
const numberRules: readonly NumberRule[] = [
  ['temperature', 'number', 0, 2],
  ['top_p', 'number', 0, 1],
  ['top_k', 'integer', -1, largestToken],
  ['min_p', 'number', 0, 1],
  ['presence_penalty', 'number', -2, 2],
  ['frequency_penalty', 'number', -2, 2],
  ['repetition_penalty', 'number', 0.01, 10],
  ['seed', 'integer', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  ['min_tokens', 'integer', 0, largestToken],
]

const flagNames = ['ignore_eos', 'skip_special_tokens', 'add_special_tokens'] as const

/** What is left out is left to the model. Throws OpenAiProblem. */
export function readSampling(fields: RequestFields): SamplingParameters {
  const sampling: SamplingParameters = {}
  for (const [name, kind, least, most] of numberRules) {
    const value = fields[kind](name, least, most)
    if (value !== null) sampling[name] = value
  }
  for (const name of flagNames) {
    const value = fields.flag(name)
    if (value !== null) sampling[name] = value
  }
  // True is what every model does, and not all know the name.
  if (fields.flag('cache_prompt') === false) sampling['cache_prompt'] = false
  const stop = readStop(fields)
  if (stop.length > 0) sampling['stop'] = stop
  const stopTokens = readTokens(fields, 'stop_token_ids', mostStopTokens)
  if (stopTokens !== null) sampling['stop_token_ids'] = stopTokens
  const biases = readBiases(fields)
  if (biases !== null) sampling['logit_bias'] = biases
  const lora = fields.text('lora')
  if (lora !== null) sampling['lora'] = lora
  return { ...sampling, ...readForm(fields) }
}

/** Throws for 0, which OpenAI refuses too. Null: the model's own limit. */
export function readMaxTokens(fields: RequestFields, ...names: readonly string[]): number | null {
  for (const name of names) {
    const value = fields.integer(name, 1, largestToken)
    if (value !== null) return value
  }
  return null
}

function readStop(fields: RequestFields): string[] {
  const given = fields.raw('stop')
  if (given === null) return []
  if (typeof given === 'string') return readStops(fields, [given])
  return readStops(fields, fields.list('stop', mostStopStrings) ?? [])
}

function readStops(fields: RequestFields, given: readonly unknown[]): string[] {
  return given.map((stop, index) => {
    const param = `${fields.param('stop')}[${index}]`
    if (typeof stop !== 'string') throw badRequest(`'${param}' must be a string`, param)
    if (stop === '') throw badRequest(`'${param}' is empty: an empty text would stop every answer at once`, param)
    if (stop.length <= longestStopString) return stop
    throw badRequest(`'${param}' has ${stop.length} characters, at most ${longestStopString} are taken`, param)
  })
}

export function readTokens(fields: RequestFields, name: string, most: number): number[] | null {
  const given = fields.list(name, most)
  if (given === null) return null
  if (given.every(isToken)) return given as number[]
  throw badRequest(`'${fields.param(name)}' must be a list of token ids`, fields.param(name))
}

export const isToken = (value: unknown): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= largestToken

function readBiases(fields: RequestFields): Record<string, number> | null {
  const given = fields.object('logit_bias')
  if (given === null) return null
  const entries = Object.entries(given)
  const param = fields.param('logit_bias')
  if (entries.length > mostLogitBiases) {
    throw badRequest(`'${param}' has ${entries.length} entries, at most ${mostLogitBiases} are taken`, param)
  }
  for (const [token, bias] of entries) {
    const isKnown = /^\d{1,10}$/.test(token) && isToken(Number(token))
    if (!isKnown)
      throw badRequest(`'${param}' must map token ids to numbers, got the key '${token.slice(0, 40)}'`, param)
    if (typeof bias !== 'number' || bias < -100 || bias > 100) {
      throw badRequest(`'${param}.${token}' must be a number from -100 to 100`, `${param}.${token}`)
    }
  }
  return given as Record<string, number>
}

/** The form that the answer must have: `response_format`, and the names of vLLM and llama.cpp for it. */
function readForm(fields: RequestFields): SamplingParameters {
  const forms: SamplingParameters[] = []
  const format = fields.inner('response_format')
  if (format !== null) forms.push(readFormat(format))
  for (const name of ['json_schema', 'guided_json']) {
    const schema = fields.object(name)
    if (schema !== null) forms.push({ json_schema: checkSchema(schema, fields.param(name)) })
  }
  for (const name of ['grammar', 'guided_grammar']) forms.push(readGrammar(fields, name))
  forms.push(readChoice(fields, 'guided_choice'))
  refusePattern(fields, 'guided_regex')
  const structured = fields.inner('structured_outputs')
  if (structured !== null) forms.push(...readStructured(structured))
  const given = forms.filter((form) => Object.keys(form).length > 0)
  if (given.length <= 1) return given[0] ?? {}
  throw badRequest(
    "the request asks for several forms of its answer: send one of 'response_format', 'json_schema', 'grammar', 'structured_outputs'",
  )
}

function readGrammar(fields: RequestFields, name: string): SamplingParameters {
  const grammar = fields.text(name)
  return grammar === null ? {} : { grammar: notTooLong(grammar, fields.param(name)) }
}

function notTooLong(text: string, param: string): string {
  if (text.length <= mostGrammarBytes) return text
  throw badRequest(`'${param}' has ${text.length} characters, at most ${mostGrammarBytes} are taken`, param)
}

/** vLLM's newer name for all forms. `json` is an object, or its text. */
function readStructured(structured: RequestFields): SamplingParameters[] {
  refusePattern(structured, 'regex')
  const isText = typeof structured.raw('json') === 'string'
  const schema = isText ? parsedSchema(structured) : structured.object('json')
  const isObject = structured.flag('json_object') ?? false
  return [
    schema === null ? {} : { json_schema: checkSchema(schema, structured.param('json')) },
    isObject ? { json_schema: { type: 'object' } } : {},
    readGrammar(structured, 'grammar'),
    readChoice(structured, 'choice'),
  ]
}

function parsedSchema(structured: RequestFields): JsonObject {
  const text = notTooLong(structured.text('json') ?? '', structured.param('json'))
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed as JsonObject
  } catch {
    // The refusal below says it.
  }
  throw structured.wrong('json', 'a JSON schema, as an object or as its text')
}

/** One of these texts and nothing else: a grammar of them. */
function readChoice(fields: RequestFields, name: string): SamplingParameters {
  const choices = fields.list(name, mostChoices)
  if (choices === null) return {}
  const param = fields.param(name)
  if (choices.length === 0 || choices.some((choice) => typeof choice !== 'string' || choice === '')) {
    throw badRequest(`'${param}' must be a list of texts that are not empty`, param)
  }
  const grammar = `root ::= ${choices.map((choice) => grammarText(choice as string)).join(' | ')}`
  return { grammar: notTooLong(grammar, param) }
}

const grammarEscapes: Readonly<Record<string, string>> = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' } // prettier-ignore
const grammarText = (text: string): string =>
  `"${text.replace(/["\\\n\r\t]/g, (char) => grammarEscapes[char] ?? char)}"`

/** Left out without a word, the client would take any text for one of this form. */
function refusePattern(fields: RequestFields, name: string): void {
  if (!fields.has(name)) return
  const param = fields.param(name)
  throw unsupported(`'${param}' is not supported: send a grammar or a JSON schema`, param)
}

function readFormat(format: RequestFields): SamplingParameters {
  const type = format.requiredText('type')
  if (type === 'text') return {}
  if (type === 'json_object') {
    // llama.cpp takes a schema here.
    const schema = format.object('schema')
    return { json_schema: schema === null ? { type: 'object' } : checkSchema(schema, format.param('schema')) }
  }
  if (type !== 'json_schema') {
    throw format.wrong('type', "'text', 'json_object' or 'json_schema'")
  }
  const inner = format.inner('json_schema')
  if (inner === null) throw badRequest(`you must provide '${format.param('json_schema')}'`, format.param('json_schema'))
  const schema = inner.object('schema')
  if (schema === null) throw badRequest(`you must provide '${inner.param('schema')}'`, inner.param('schema'))
  return { json_schema: checkSchema(schema, inner.param('schema')) }
}

/** Whether a text can have this form is found out where the grammar is made of it. Here its size is bounded. */
export function checkSchema(schema: JsonObject, param: string): JsonObject {
  if (depthOf(schema, 0) > deepestSchema) {
    throw badRequest(`'${param}' nests deeper than ${deepestSchema} levels`, param, 'invalid_json_schema')
  }
  const bytes = Buffer.byteLength(JSON.stringify(schema))
  if (bytes > mostGrammarBytes) {
    throw badRequest(
      `'${param}' has ${bytes} bytes, at most ${mostGrammarBytes} are taken`,
      param,
      'invalid_json_schema',
    )
  }
  return schema
}

function depthOf(value: unknown, depth: number): number {
  if (depth > deepestSchema || typeof value !== 'object' || value === null) return depth
  let deepest = depth
  for (const each of Object.values(value)) deepest = Math.max(deepest, depthOf(each, depth + 1))
  return deepest
}

/** Values that change nothing: a model that cannot be told may be asked with them. */
const neutral: Readonly<Record<string, unknown>> = {
  temperature: 1,
  top_p: 1,
  top_k: -1,
  min_p: 0,
  presence_penalty: 0,
  frequency_penalty: 0,
  repetition_penalty: 1,
  min_tokens: 0,
  ignore_eos: false,
  skip_special_tokens: true,
  add_special_tokens: true,
}

/** Throws for what a model without `sampling_parameters` cannot do, by its name. */
export function refuseSampling(sampling: SamplingParameters, taken: ReadonlyMap<string, unknown>, model: string): void {
  for (const [name, value] of Object.entries(sampling)) {
    if (taken.has(name) || neutral[name] === value) continue
    const known = taken.size === 0 ? 'no sampling parameter' : [...taken.keys()].map((each) => `'${each}'`).join(', ')
    throw unsupported(`model '${model}' cannot do '${name}': it takes ${known}. Leave '${name}' out.`, name)
  }
}
