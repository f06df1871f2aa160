// The body of POST /v2/jobs, taken apart without JSON.parse of all of it: 4 MiB of lines would hold the event loop for a third of a second.
// What is left without the lines is small; of the lines each is parsed by itself, and a long one when the job comes to it.

import { deepestJson, endOfText, tooDeepJson, tooManyContainers } from '../base/json-form.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { mostInlineLines } from './job-plan.ts'

type JobBody = {
  /** The body with an empty list of lines. */
  readonly rest: Buffer
  readonly lines: readonly string[]
}

const [quote, colon, comma] = [0x22, 0x3a, 0x2c]
const [listStart, listEnd, objectStart, objectEnd] = [0x5b, 0x5d, 0x7b, 0x7d]
/** Bytes that are looked at or parsed in one step: about a millisecond. */
const stepBytes = 16 * 1024
/** What a line costs beside its bytes. */
const lineBytes = 64
/** The names that are looked for are shorter. */
const nameBytes = 16
/** A longer line is parsed by whoever reads it, in steps or in a thread. */
const parsedAtOnceBytes = 64 * 1024
/** Lists and objects of the body: a line with one tensor has five. */
const mostJobContainers = 500_000
/** The list of lines lies in the object `input` of the body. */
const depthOfLines = 3

/** `ends` has the place behind each line: of a comma, at last of the bracket that ends the list. */
type LineList = { readonly start: number; readonly ends: number[]; isOver: boolean }

/** In steps, for `inSlices`. Throws INVALID_ARG. What is wrong with the rest is found by whoever parses it. */
export function* splitJobBody(body: Buffer): Generator<void, JobBody> {
  const list = yield* findLines(body)
  if (list === null || !list.isOver || list.ends.length === 0) return { rest: body, lines: [] }
  const lines: string[] = []
  let start = list.start
  let worked = 0
  for (const end of list.ends) {
    lines.push(lineOf(body.subarray(start + 1, end)))
    worked += end - start + lineBytes
    start = end
    if (worked < stepBytes) continue
    worked = 0
    yield
  }
  return { rest: Buffer.concat([body.subarray(0, list.start + 1), body.subarray(start)]), lines }
}

function* findLines(body: Buffer): Generator<void, LineList | null> {
  let list: LineList | null = null
  let [depth, count, looks, text] = [0, 0, 0, '']
  /** The names that lead to where the reader is, by depth. */
  const names = ['', '', '']
  for (let i = 0; i < body.length; i++) {
    if (++looks % stepBytes === 0) yield
    const byte = body[i]
    if (byte === quote) {
      const end = endOfText(body, i)
      if (depth < depthOfLines) text = body.toString('latin1', i + 1, Math.min(end, i + nameBytes))
      i = end
    } else if (byte === colon && depth < depthOfLines) names[depth] = text
    else if (byte === listStart || byte === objectStart) {
      if (++count > mostJobContainers) throw notRead(tooManyContainers(mostJobContainers))
      if (++depth > deepestJson) throw notRead(tooDeepJson)
      if (depth !== depthOfLines || byte !== listStart || names[1] !== 'input' || names[2] !== 'lines') continue
      if (list !== null) throw notRead("it has the list 'input.lines' twice")
      list = { start: i, ends: [], isOver: false }
    } else if (byte === listEnd || byte === objectEnd) {
      if (depth === depthOfLines && list !== null && !list.isOver) endList(body, list, i)
      if (depth > 0) depth--
    } else if (byte === comma && depth === depthOfLines && list !== null && !list.isOver) list.ends.push(i)
  }
  return list
}

function endList(body: Buffer, list: LineList, at: number): void {
  const isEmpty = list.ends.length === 0 && body.toString('latin1', list.start + 1, at).trim() === ''
  if (!isEmpty) list.ends.push(at)
  list.isOver = true
  if (list.ends.length > mostInlineLines) throw invalid(`'input.lines' must have at most ${mostInlineLines} items, got ${list.ends.length}`) // prettier-ignore
}

/** A line of a file has no line break inside. A text alone is a line as it is. */
function lineOf(line: Buffer): string {
  const text = line.toString('utf8').trim()
  if (line.length > parsedAtOnceBytes && !text.startsWith('"')) return text.replaceAll(/[\r\n]/g, ' ')
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'string' ? value : JSON.stringify(value)
  } catch (reason) {
    throw invalid(`the body is not JSON: ${messageOf(reason).slice(0, 200)}`)
  }
}

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)
const notRead = (problem: string): ServerError => invalid(`the body is not read: ${problem}`)
