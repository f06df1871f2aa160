// The text of a file that people write as plain values. YAML is read in a small, safe part of the language: no anchors,
// aliases, tags, directives or explicit keys, and little nesting. A parser of all of it takes minutes for some 64 KiB.

import { CST, isMap, isScalar, Lexer, LineCounter, parseDocument, visit, type Document } from 'yaml'
import { messageOf } from './server-error.ts'
import type { Position } from './plan-reader.ts'

type FileText = {
  readonly value: unknown
  /** Where the value of a key stands; null where that is not known. */
  readonly positionOf: (keys: readonly string[]) => Position | null
}

/** What is wrong with the text as a whole. */
export class FileTextError extends Error {
  readonly position: Position | null

  constructor(what: string, position: Position | null) {
    super(what)
    this.position = position
  }
}

/** Throws FileTextError. */
export function parseFileText(text: string, format: 'yaml' | 'json'): FileText {
  if (text.includes('\0')) throw new FileTextError('it is not text: it has NUL characters', null)
  return format === 'json' ? parseJson(text) : parseYaml(text)
}

function parseJson(text: string): FileText {
  try {
    return { value: JSON.parse(text) as unknown, positionOf: () => null }
  } catch (reason) {
    throw new FileTextError(`it is not JSON: ${messageOf(reason)}`, null)
  }
}

function parseYaml(text: string): FileText {
  refuseUnsafe(text)
  const lineCounter = new LineCounter()
  const place = (offset: number): Position => {
    const { line, col } = lineCounter.linePos(offset)
    return { line, column: col }
  }
  const document = parseDocument(text, {
    version: '1.2',
    schema: 'core',
    merge: false,
    stringKeys: true,
    // The library compares keys pair by pair, which is slow for thousands of keys; `refuseDuplicates` uses a set.
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'silent',
    lineCounter,
  })
  const [mistake] = document.errors
  if (mistake !== undefined) throw new FileTextError(`it is not YAML: ${mistake.message}`, place(mistake.pos[0]))
  refuseDuplicates(document, place)
  return {
    value: document.toJS({ maxAliasCount: 0 }) as unknown,
    positionOf: (keys) => {
      const node = document.getIn(keys, true) as { readonly range?: readonly number[] | null } | undefined
      const start = node?.range?.[0]
      return start === undefined ? null : place(start)
    },
  }
}

const maxFlowDepth = 16
const maxIndent = 64
const maxDashesPerLine = 4
/** A token costs a tenth of a millisecond at worst; a file that people write has a few hundred tokens. */
const maxWords = 5000

const refused: Readonly<Record<string, string>> = {
  anchor: 'anchors (&name) are not read',
  alias: 'aliases (*name) are not read',
  tag: 'tags (!name) are not read',
  'explicit-key-ind': "explicit keys ('? ') are not read",
  directive: 'directives (%NAME) are not read',
  'directive-line': 'directives (%NAME) are not read',
  'doc-end': 'only one document is read',
}

/** One pass over the tokens, before any value is built from them. */
function refuseUnsafe(text: string): void {
  let offset = 0
  let flowDepth = 0
  let dashes = 0
  let isLineStart = true
  let isScalarNext = false
  let words = 0
  for (const source of new Lexer().lex(text)) {
    const refuse = (what: string): never => {
      throw new FileTextError(what, positionIn(text, offset))
    }
    if (++words > maxWords) refuse('it has too many keys and values')
    const type: string | null = isScalarNext ? 'scalar-text' : CST.tokenType(source)
    isScalarNext = type === 'scalar'
    const isMark = type === 'scalar' || type === 'doc-mode' || type === 'flow-error-end'
    if (type !== null && refused[type] !== undefined) refuse(refused[type])
    if (type === 'newline') dashes = 0
    else if (type === 'seq-item-ind' && ++dashes > maxDashesPerLine) refuse('it is nested too deeply')
    else if (type === 'flow-map-start' || type === 'flow-seq-start') {
      if (++flowDepth > maxFlowDepth) refuse('it is nested too deeply')
    } else if (type === 'flow-map-end' || type === 'flow-seq-end') flowDepth--
    else if (type === 'space' && isLineStart && source.length > maxIndent) refuse('it is indented too far')
    if (isMark) continue
    isLineStart = type === 'newline'
    offset += source.length
  }
}

function positionIn(text: string, offset: number): Position {
  const before = text.slice(0, offset)
  return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') }
}

function refuseDuplicates(document: Document, place: (offset: number) => Position): void {
  visit(document, {
    Node: (_key, node) => {
      if (!isMap(node)) return
      const seen = new Set<unknown>()
      for (const { key } of node.items) {
        const name = isScalar(key) ? key.value : key
        if (seen.has(name)) {
          const start = isScalar(key) ? key.range?.[0] : undefined
          throw new FileTextError(
            `the key '${String(name).slice(0, 100)}' is there twice`,
            start === undefined ? null : place(start),
          )
        }
        seen.add(name)
      }
    },
  })
}
