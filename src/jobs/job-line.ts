// One line of a job: the body of a v2 inference, or a line of an OpenAI batch. And the line of its answer.

import { jsonFormProblem } from '../base/json-form.ts'
import { messageOf } from '../base/server-error.ts'
import { scanLine } from './scan-line.ts'

/** A call of the server's own HTTP API. `id` is the client's name of the line, '' for none. */
export type LineCall = {
  readonly id: string
  readonly target: string
  readonly body: Buffer
  readonly isOpenAi: boolean
}

/** `isJson` is false for an answer that says itself that it has something else in it, as binary tensors. */
export type LineAnswer = { readonly status: number; readonly body: Buffer; readonly isJson?: boolean }

export const longestLineBytes = 64 * 1024 * 1024
/** A line and an answer up to this size are parsed in one turn of the event loop. */
const parsedAtOnceBytes = 256 * 1024
/** More blanks than anybody leaves in an empty line. */
const longestBlankBytes = 4096
/** Lists and objects of one line: the rows of tensors are lists. */
const mostLineContainers = 1_000_000
/** Of a line that is parsed as a whole, and of one of a batch. */
export const mostCallContainers = 65_536
/** The paths that a line of an OpenAI batch may ask for. */
const openAiPaths: ReadonlySet<string> = new Set(['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses']) // prettier-ignore

/** An empty line is no line. */
export const isBlankLine = (line: Buffer): boolean =>
  line.length <= longestBlankBytes && line.every((byte) => byte <= 0x20)

/**
 * Text says why the line is no call. Others are served between the steps. `onlyModel` is the model that a line of an OpenAI batch must name, because the author of the job was asked
 * for a right to that model only; '': any, where the rights to all of them were asked for.
 */
export function* readLine(
  line: Buffer,
  inferTarget: string,
  onlyModel: string,
  mostCallBytes: number,
  mostContainers = mostLineContainers,
): Generator<void, LineCall | string> {
  // A file is read no further than this; a queue gives a message as it is.
  if (line.length > longestLineBytes) return `the line has ${line.length} bytes, at most ${longestLineBytes} are taken`
  const isLong = line.length > parsedAtOnceBytes
  if (isLong) {
    const found = yield* scanLine(line, mostContainers, ['id', 'custom_id', 'url'])
    if (typeof found === 'string') return `the line is not read: ${found}`
    if (!found.has('custom_id') && !found.has('url')) {
      const id = found.get('id') ?? ''
      return found.has('id') && found.get('id') === null ? "'id' must be text" : { id, target: inferTarget, body: line, isOpenAi: false } // prettier-ignore
    }
    // Bodies of the OpenAI API are parsed as a whole.
    if (line.length > mostCallBytes) return `the line has ${line.length} bytes, at most ${mostCallBytes} are taken of a call of the OpenAI API. Use --openai-max-request-bytes to increase the limit.` // prettier-ignore
  }
  const problem = jsonFormProblem(line, isLong ? mostCallContainers : mostContainers)
  if (problem !== '') return `the line is not read: ${problem}`
  let value: unknown
  try {
    value = JSON.parse(line.toString('utf8'))
  } catch (reason) {
    return `the line is not JSON: ${messageOf(reason).slice(0, 200)}`
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'the line must be a JSON object'
  const { id = '', custom_id: customId, url, body } = value as Readonly<Record<string, unknown>>
  if (customId === undefined && url === undefined) {
    if (typeof id !== 'string') return "'id' must be text"
    return { id, target: inferTarget, body: line, isOpenAi: false }
  }
  if (typeof customId !== 'string' || customId === '') return "'custom_id' must be text"
  if (typeof url !== 'string' || !openAiPaths.has(url)) return `'url' must be one of ${[...openAiPaths].join(', ')}`
  if (typeof body !== 'object' || body === null) return "'body' must be an object"
  if ('stream' in body && body.stream === true) return "'body.stream' must be false in a batch"
  const model: unknown = 'model' in body ? body.model : undefined
  if (onlyModel !== '' && model !== onlyModel) return `'body.model' must be '${onlyModel}', the model of the job`
  return { id: customId, target: url, body: Buffer.from(JSON.stringify(body)), isOpenAi: true }
}

/** Ends with a line break. `at` names the line where it has no id. */
export function answerLine(call: LineCall | null, at: string, { status, body, isJson = false }: LineAnswer): string {
  if (call?.isOpenAi) {
    const isGood = status < 400
    const response = { status_code: status, request_id: at, body: jsonOf(body) }
    const error = isGood ? null : { code: String(status), message: errorOf(body) }
    return `${JSON.stringify({ id: at, custom_id: call.id, response: isGood ? response : null, error })}\n`
  }
  const id = call === null || call.id === '' ? at : call.id
  if (status >= 400) return `${JSON.stringify({ id, error: errorOf(body), status })}\n`
  if (isJson && body.length > parsedAtOnceBytes) return longAnswer(body.toString('utf8'), id)
  const answer = jsonOf(body)
  return typeof answer === 'object' && answer !== null
    ? `${JSON.stringify({ ...answer, id })}\n`
    : `${JSON.stringify({ id, error: 'the answer is not JSON', status: 500 })}\n`
}

/** The answer to an inference is one line, and begins with the id where the line had one. */
const longAnswer = (text: string, id: string): string =>
  text.startsWith('{"id":') ? `${text}\n` : `{"id":${JSON.stringify(id)},${text.slice(1)}\n`

/** The text of an error, from the bodies of v2 and of OpenAI. */
export function errorOf(body: Buffer): string {
  const value = jsonOf(body)
  if (typeof value === 'object' && value !== null && 'error' in value) {
    const { error } = value
    if (typeof error === 'string') return error
    if (typeof error === 'object' && error !== null && 'message' in error) return String(error.message)
  }
  return body.toString('utf8').slice(0, 1000)
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}
