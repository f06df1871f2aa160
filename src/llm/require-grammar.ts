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
  // How often each open bracket repeats what is in it, so far; the first is the rule itself.
  let open = [0]
  let closed = 0
  for (const [mark, count, least = 0] of marksOf(grammar)) {
    // llama.cpp counts from the second number down to the first, and would never come to an end.
    if (least > count) refuse(`has a repetition of at least ${least} and at most ${count}`)
    // A new rule begins: its repetitions are its own.
    if (mark === '=') open = [0]
    if (mark === '(') open.push(0)
    if (open.length > mostNested + 1) refuse(`has more than ${mostNested} brackets inside each other`)
    const repeated = mark === '{' ? Math.max(1, count) * Math.max(1, closed) : 0
    // A bracket counts when it is closed; a repetition behind it has counted it once already.
    closed = mark === ')' ? (open.length > 1 ? (open.pop() as number) : 0) : 0
    const added = mark === ')' ? closed : repeated
    open[open.length - 1] = (open.at(-1) as number) + added
    if ((open.at(-1) as number) > mostRepeated) {
      refuse(`repeats more than ${mostRepeated} times, counting repetitions of repetitions`)
    }
  }
}

/**
 * The marks outside of texts, character sets and comments. A repetition comes with its largest number. What stands between a
 * bracket and a repetition that is not its own is the mark ' '.
 */
function* marksOf(grammar: string): Generator<readonly [mark: string, count: number, least?: number]> {
  for (const [text, first = '', comma = '', second = ''] of grammar.matchAll(markPattern)) {
    const least = Number(first)
    if (text === '::=') yield ['=', 0]
    else if (text === '(' || text === ')') yield [text, 0]
    else if (text.startsWith('{')) yield ['{', comma === '' || second === '' ? least : Number(second), least]
    else yield [' ', 0]
  }
}

/** Spaces, lines and comments, which may stand between all parts of a repetition. */
const gap = String.raw`(?:\s|#[^\n]*\n)*`
const markPattern = new RegExp(
  String.raw`"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*|::=|[()]|\{${gap}(\d+)${gap}(?:(,)${gap}(?:(\d+)${gap})?)?\}|[\w-]+`,
  'g',
)
