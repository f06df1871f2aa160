import { ServerError } from '../base/server-error.ts'

/** Brackets inside each other. llama.cpp's parser calls itself for each, and its stack has an end. */
const mostNested = 64
/** Repetitions are written out, so those inside each other multiply. */
const mostRepeated = 2000

/** Refuses a grammar that would use up stack or memory of the engine. llama.cpp checks the rest. */
export function requireGrammar(grammar: string): void {
  const refuse = (text: string): never => {
    throw ServerError.withoutStack('INVALID_ARG', `sampling_parameters: 'grammar' ${text}`)
  }
  let depth = 0
  let copies = 1
  for (const [mark, count] of marksOf(grammar)) {
    if (mark === '(') depth++
    if (mark === ')') depth--
    if (depth > mostNested) refuse(`has more than ${mostNested} brackets inside each other`)
    if (mark === '{') copies *= Math.max(1, count)
    if (copies > mostRepeated) refuse(`repeats more than ${mostRepeated} times, counting repetitions of repetitions`)
    // A new rule begins: its repetitions are its own.
    if (mark === '=') copies = 1
  }
}

/** The marks outside of texts, character sets and comments. A repetition comes with its largest number. */
function* marksOf(grammar: string): Generator<readonly [mark: string, count: number]> {
  const pattern = /"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*|::=|[()]|\{(\d*)(?:,(\d*))?\}/g
  for (const [text, least = '', most = ''] of grammar.matchAll(pattern)) {
    if (text === '::=') yield ['=', 0]
    else if (text === '(' || text === ')') yield [text, 0]
    else if (text.startsWith('{')) yield ['{', Math.max(Number(least), Number(most))]
  }
}
