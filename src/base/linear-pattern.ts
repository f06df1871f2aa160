// A regular expression whose matching takes time in proportion to the text, whatever the pattern and the text are: all
// ways through the pattern are followed at once (Thompson), and what was found out about a set of ways is remembered.

import { isWordChar, parsePattern, type Assertion, type CharTest, type PatternNode } from './pattern-syntax.ts'

/** A pattern of more steps is refused. RE2 refuses by memory, at about the same size. */
const mostSteps = 4096
/** At so many sets they are forgotten and found out anew; when that happens often, remembering does not pay. */
const mostStates = 512
const mostForgotten = 8

type Step =
  | { readonly kind: 'char'; readonly test: CharTest; readonly next: number }
  | { readonly kind: 'assert'; readonly what: Assertion; readonly next: number }
  | { readonly kind: 'split'; next: number; other: number }
  | { readonly kind: 'match' }

/** Where the ways stand between two characters, before what needs no character is followed. */
type State = {
  readonly steps: readonly number[]
  /** The character before, as assertions see it; -1 at the start. */
  readonly before: number
  /** By ASCII character, the last one by the end of the text. */
  readonly following: (State | 'match' | 'no-match' | undefined)[]
}

const endOfText = 128
const none = -1

export class LinearPattern {
  readonly #steps: Step[] = [{ kind: 'match' }]
  readonly #first: number
  #states = new Map<string, State>()
  #forgotten = 0
  readonly #mark: Float64Array
  #round = 0

  /** RE2's syntax, letters in either case. Throws an Error that says what is wrong. */
  constructor(pattern: string) {
    this.#first = this.#compile(parsePattern(pattern), 0)
    this.#mark = new Float64Array(this.#steps.length)
  }

  /** Whether the pattern matches anywhere in the text. */
  matches(text: string): boolean {
    let state = this.#stateOf([this.#first], none)
    for (let i = 0; i <= text.length; i++) {
      const c = i < text.length ? (text.codePointAt(i) as number) : none
      if (c > 0xffff) i++
      const slot = c === none ? endOfText : c < endOfText ? c : none
      const known = slot === none ? undefined : state.following[slot]
      const next = known ?? this.#follow(state, c)
      if (slot !== none) state.following[slot] = next
      if (typeof next === 'string') return next === 'match'
      state = next
    }
    return false
  }

  /** The steps of a node, of which the last one leads to `next`; returns the first of them. */
  #compile(node: PatternNode, next: number): number {
    if (node.kind === 'char') return this.#add({ kind: 'char', test: node.test, next })
    if (node.kind === 'assert') return this.#add({ kind: 'assert', what: node.what, next })
    if (node.kind === 'repeat') return this.#compileRepeat(node.part, node.least, node.most, next)
    if (node.kind === 'sequence') return node.parts.reduceRight((after, part) => this.#compile(part, after), next)
    return node.parts
      .map((part) => this.#compile(part, next))
      .reduceRight((other, one) => this.#add({ kind: 'split', next: one, other }))
  }

  #compileRepeat(part: PatternNode, least: number, most: number, next: number): number {
    let first = next
    if (most === Infinity) {
      const loop: Step = { kind: 'split', next: 0, other: next }
      first = this.#add(loop)
      loop.next = this.#compile(part, first)
    } else {
      for (let i = least; i < most; i++) {
        first = this.#add({ kind: 'split', next: this.#compile(part, first), other: next })
      }
    }
    for (let i = 0; i < least; i++) first = this.#compile(part, first)
    return first
  }

  #add(step: Step): number {
    if (this.#steps.length >= mostSteps) throw new Error(`pattern too large, it needs more than ${mostSteps} steps`)
    return this.#steps.push(step) - 1
  }

  #stateOf(steps: readonly number[], before: number): State {
    const kind = before === none || before === 10 ? before : isWordChar(before) ? 0x61 : 0x20
    if (this.#forgotten > mostForgotten) return { steps, before: kind, following: [] }
    const key = `${kind}:${steps.join()}`
    let state = this.#states.get(key)
    if (state === undefined) {
      if (this.#states.size >= mostStates) {
        this.#states = new Map()
        this.#forgotten++
      }
      state = { steps, before: kind, following: [] }
      this.#states.set(key, state)
    }
    return state
  }

  /** What comes of a state at this character, `none` at the end. */
  #follow({ steps, before }: State, c: number): State | 'match' | 'no-match' {
    const round = ++this.#round
    const open = [...steps]
    // A match may begin anywhere.
    const after = new Set<number>([this.#first])
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      if (this.#mark[at] === round) continue
      this.#mark[at] = round
      const step = this.#steps[at] as Step
      if (step.kind === 'match') return 'match'
      if (step.kind === 'split') open.push(step.next, step.other)
      else if (step.kind === 'assert') {
        if (holds[step.what](before, c)) open.push(step.next)
      } else if (c !== none && step.test(c)) after.add(step.next)
    }
    if (c === none) return 'no-match'
    const inOrder = [...after].sort((a, b) => a - b)
    return this.#stateOf(inOrder, c)
  }
}

const holds: Readonly<Record<Assertion, (before: number, after: number) => boolean>> = {
  'text-start': (before) => before === none,
  'text-end': (_, after) => after === none,
  'line-start': (before) => before === none || before === 10,
  'line-end': (_, after) => after === none || after === 10,
  'word-boundary': (before, after) => isWordChar(before) !== isWordChar(after),
  'no-word-boundary': (before, after) => isWordChar(before) === isWordChar(after),
}
