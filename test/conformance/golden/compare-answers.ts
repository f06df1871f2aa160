// Whether an answer is the recorded one: JSON by value, what a case calls volatile masked, what no client looks at left out.

import { isDeepStrictEqual } from 'node:util'
import path from 'node:path'

type Document = Record<string, unknown>
const mask = '<volatile>'

export function isSameAnswer(expected: Document, actual: Document, volatile: readonly string[]): boolean {
  return isDeepStrictEqual(comparable(expected, volatile), comparable(actual, volatile))
}

/** For showing a difference: the same view that is compared. */
export function comparable(answer: Document, volatile: readonly string[]): Document {
  return lenient(hide(opened(answer), volatile) as Document)
}

/** Python's JSON reads NaN and Infinity; so do Triton's clients. */
function parseJson(text: string): unknown {
  const strict = text.replace(/("(?:[^"\\]|\\.)*")|-?\b(?:NaN|Infinity)\b/g, (token, string: string | undefined) =>
    string === undefined ? `{"$number":"${token}"}` : token,
  )
  // Integers beyond 2^53 keep their digits.
  return JSON.parse(strict, (_, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' &&
    context?.source !== undefined &&
    !Number.isSafeInteger(value) &&
    /^-?\d+$/.test(context.source)
      ? BigInt(context.source)
      : value,
  )
}

function opened(answer: Document): Document {
  const document = { ...answer }
  if (Array.isArray(document['answers']))
    document['answers'] = document['answers'].map((one) => opened(one as Document))
  const body = document['body']
  if (typeof body === 'string' && /^[{[]/.test(body)) {
    try {
      document['body'] = parseJson(body)
    } catch {
      // Not JSON after all: compared as text.
    }
  }
  return document
}

function hide(document: unknown, volatile: readonly string[]): unknown {
  const patterns = volatile.filter((entry) => entry.startsWith('re:')).map((entry) => new RegExp(entry.slice(3), 'g'))
  const pointers = volatile
    .filter((entry) => entry.startsWith('/'))
    .map((entry) => entry.replace(/^\/|\/$/g, '').split('/'))
  const walk = (value: unknown, at: readonly string[]): unknown => {
    const isHidden = pointers.some(
      (pointer) =>
        pointer.length === at.length &&
        at.every((key, i) => path.matchesGlob(key, pointer[i] as string) || key === pointer[i]),
    )
    if (isHidden) return mask
    if (Array.isArray(value)) return value.map((one, i) => walk(one, [...at, String(i)]))
    if (typeof value === 'string') return patterns.reduce((text, pattern) => text.replace(pattern, mask), value)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [
        key,
        walk(one, [...at, key.replace(/~/g, '~0').replace(/\//g, '~1')]),
      ]),
    )
  }
  return walk(document, [])
}

/** The content type of an error, and whether a body came in chunks, matter to no client. */
function lenient(document: Document): Document {
  if (Array.isArray(document['answers'])) {
    return { ...document, answers: document['answers'].map((one) => lenient(one as Document)) }
  }
  const headers = document['headers'] as Record<string, string> | undefined
  if (headers === undefined) return document
  const isSuccess = document['status'] === 200
  const kept = Object.entries(headers).filter(
    ([name]) => name !== 'transfer-encoding' && (isSuccess || name !== 'content-type'),
  )
  return { ...document, headers: Object.fromEntries(kept) }
}
