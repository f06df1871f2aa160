// Feedback: labels and scores that come after the answer, by the id of the request. The server remembers for a while which arm
// answered, and what it said.

const mostPerCall = 1000
const longestId = 256
const longestText = 1024
const mostIds = 100_000
const rememberedNs = 24 * 3600e9

export type FeedbackEntry =
  | { readonly kind: 'label'; readonly id: string; readonly label: string | number | boolean }
  | { readonly kind: 'correct'; readonly id: string; readonly isCorrect: boolean }
  | { readonly kind: 'score'; readonly id: string; readonly name: string; readonly score: number }

/** `problem` says what is wrong, '' for nothing; then there are no entries. */
type FeedbackBody = { readonly entries: readonly FeedbackEntry[]; readonly problem: string }

const isMapping = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The body of a call: `{"feedback": [{"id": "…", "label": 7}, …]}`. One wrong entry refuses the whole call. */
export function readFeedback(body: unknown): FeedbackBody {
  const refuse = (problem: string): FeedbackBody => ({ entries: [], problem })
  const list = isMapping(body) ? body['feedback'] : undefined
  if (!Array.isArray(list)) return refuse('the body must be {"feedback": [{"id": "…", "label": 7}]}')
  if (list.length > mostPerCall) {
    return refuse(`a call takes at most ${mostPerCall} entries, got ${list.length}: send several calls`)
  }
  const entries: FeedbackEntry[] = []
  for (const [i, item] of list.entries()) {
    const entry = readEntry(item)
    if (typeof entry === 'string') return refuse(`feedback[${i}] ${entry}`)
    entries.push(entry)
  }
  return { entries, problem: '' }
}

const entryKeys = ['id', 'label', 'correct', 'score', 'name']

function readEntry(item: unknown): FeedbackEntry | string {
  if (!isMapping(item)) return "must be an object with 'id' and one of 'label', 'correct', 'score'"
  const unknown = Object.keys(item).find((key) => !entryKeys.includes(key))
  if (unknown !== undefined) return `has the unknown key '${unknown.slice(0, 60)}', expected ${entryKeys.join(', ')}`
  const { id, label, correct, score, name = '' } = item
  if (typeof id !== 'string' || id === '' || id.length > longestId) {
    return `must have an 'id' that is a text of 1 to ${longestId} characters`
  }
  if ([label, correct, score].filter((each) => each !== undefined).length !== 1) {
    return "must have exactly one of 'label', 'correct' and 'score'"
  }
  if (correct !== undefined) {
    return typeof correct === 'boolean'
      ? { kind: 'correct', id, isCorrect: correct }
      : "'correct' must be true or false"
  }
  if (score !== undefined) {
    if (typeof name !== 'string' || name.length > 100) return "'name' must be a text of at most 100 characters"
    if (typeof score !== 'number' || !Number.isFinite(score)) return "'score' must be a finite number"
    return { kind: 'score', id, name: name === '' ? 'score' : name, score }
  }
  const isShort = typeof label !== 'string' || label.length <= longestText
  const isLabel = typeof label === 'number' || typeof label === 'string' || typeof label === 'boolean'
  return isLabel && isShort ? { kind: 'label', id, label } : `'label' must be a number, true, false or a text of at most ${longestText} characters` // prettier-ignore
}

/** What is remembered of an answer. `prediction` is null where the rollout does not ask for it. */
type AnsweredRequest = {
  /** The place of the arm in the rollout's list. */
  readonly arm: number
  /** A rule forced the arm, or somebody spoilt the request: its feedback does not count. */
  readonly isJudged: boolean
  readonly bucket: number | null
  readonly prediction: string | null
}

/** What a feedback means for the judge. */
type FeedbackFinding =
  | { readonly kind: 'correctness'; readonly of: AnsweredRequest; readonly isWrong: boolean }
  | { readonly kind: 'score'; readonly of: AnsweredRequest; readonly name: string; readonly score: number }
  /** The id is not known (any more), its answer had feedback of this kind already, or there is nothing to compare a label with. */
  | { readonly kind: 'unknown' | 'repeated' | 'no-prediction' }

type Remembered = { readonly answer: AnsweredRequest; readonly untilNs: number; hasVerdict: boolean; scores: string[] }

const mostScoresPerId = 16

/** Ids of answers: at most 100,000, for at most 24 hours. At the bound the oldest id is forgotten. */
export class FeedbackMemory {
  readonly #answers = new Map<string, Remembered>()

  get size(): number {
    return this.#answers.size
  }

  remember(id: string, answer: AnsweredRequest, nowNs: number): void {
    if (id === '' || id.length > longestId) return
    // A repeated id goes to the end: its last answer is the one that counts.
    this.#answers.delete(id)
    this.#answers.set(id, { answer, untilNs: nowNs + rememberedNs, hasVerdict: false, scores: [] })
    for (const [oldest, { untilNs }] of this.#answers) {
      if (this.#answers.size <= mostIds && untilNs > nowNs) break
      this.#answers.delete(oldest)
    }
  }

  /** An answer counts once: whoever sends a feedback twice does not vote twice. */
  find(entry: FeedbackEntry, nowNs: number): FeedbackFinding {
    const known = this.#answers.get(entry.id)
    if (known === undefined || known.untilNs <= nowNs) return { kind: 'unknown' }
    const { answer } = known
    if (entry.kind === 'score') {
      if (known.scores.includes(entry.name) || known.scores.length >= mostScoresPerId) return { kind: 'repeated' }
      known.scores.push(entry.name)
      return { kind: 'score', of: answer, name: entry.name, score: entry.score }
    }
    if (known.hasVerdict) return { kind: 'repeated' }
    if (entry.kind === 'label' && answer.prediction === null) return { kind: 'no-prediction' }
    known.hasVerdict = true
    const isWrong = entry.kind === 'correct' ? !entry.isCorrect : String(entry.label) !== answer.prediction
    return { kind: 'correctness', of: answer, isWrong }
  }
}
