// One run of a job: reads lines, asks the server for their answers, writes the answers in the order of the lines, and marks the
// lines as done after that. A line that was given out and not marked is given out again after a restart.

import type { Clock } from '../base/clock.ts'
import { inSlices } from '../base/run-in-slices.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { JobInput, JobItem, JobOutput, JobPosition } from './job-channel.ts'
import { answerLine, errorOf, readLine, type LineAnswer, type LineCall } from './job-line.ts'

export type RunParts = {
  readonly clock: Clock
  readonly input: JobInput
  readonly output: JobOutput
  /** The path of an inference of the job's model. */
  readonly inferTarget: string
  /** The only model that lines of OpenAI batches may name; '': they were checked when the job was made. */
  readonly onlyModel: string
  /** Of a line that is a call of the OpenAI API. */
  readonly mostCallBytes: number
  readonly concurrency: number
  readonly maxAttempts: number
  /** Left out: the usual bound. */
  readonly mostHeldBytes?: number
  call(call: LineCall, signal: AbortSignal): Promise<LineAnswer>
  /** For how many lines other callers leave room, with so many of this job's lines under way. */
  readonly room: (ownCount: number) => number
  readonly counted: (outcome: 'done' | 'failed' | 'dead', count: number) => void
  /** Keeps the position; called after every so many lines. */
  readonly checkpoint: (position: JobPosition) => Promise<void>
}

/** The state of one line between its reading and its mark. */
type Slot = { readonly item: JobItem; answer: string | null; isFailed: boolean; reason: string; heldBytes: number }

export const checkpointLines = 1000
const checkpointNs = 5e9
/** Lines and answers that wait for their turn to be written. */
const mostHeldJobBytes = 64 * 1024 * 1024
const windowFactor = 4
/** So many lines at least are between their reading and their mark: while a queue confirms some answers, the next lines run. */
const leastWindow = 256
/** Without room a run looks again when one of its lines has ended, and after half the time of a line, within these bounds. */
const leastRoomWaitNs = 1e6
const slowRoomWaitNs = 20e6
/** How much the last line counts in the time of a line. */
const lineTimeShare = 0.2
const emptyWaitNs = 200e6
const firstBackoffNs = 100e6
const longestBackoffNs = 5e9
/** The server has no room, or the model is away: the line waits, and no attempt is counted. */
const notNow: ReadonlySet<number> = new Set([429, 503])

export class JobRun {
  readonly #parts: RunParts
  readonly #abort = new AbortController()
  readonly #slots: Slot[] = []
  #runningCount = 0
  #heldBytes = 0
  #isInputOver = false
  #isStopped = false
  #flushing: Promise<void> | null = null
  readonly #wake: (() => void)[] = []
  readonly #sleepers = new Set<() => void>()
  /** Ends the wait for room. */
  #endRoomWait: (() => void) | null = null
  #lineNs = 2 * slowRoomWaitNs
  #error: unknown = null
  #sinceCheckpoint = 0
  #checkpointNs: number
  /** Why no line begins now; '' when lines begin. */
  standsStillBecause = ''

  constructor(parts: RunParts) {
    this.#parts = parts
    this.#checkpointNs = parts.clock.nowNs()
  }

  get runningCount(): number {
    return this.#runningCount
  }

  /** Resolves at the end of the input (true) or after `stop` (false). Throws what input and output throw. */
  async run(): Promise<boolean> {
    try {
      await this.#feed()
      while (this.#slots.length > 0 && !this.#isStopped && this.#error === null) await this.#woken()
    } finally {
      this.#abort.abort()
    }
    await this.#flushing
    if (this.#error !== null) throw ServerError.from(this.#error)
    await this.#checkpoint()
    const isAtEnd = this.#isInputOver && this.#slots.length === 0
    if (isAtEnd) await this.#parts.output.finish?.()
    return isAtEnd
  }

  /** Lines under way are given up; the next run begins with them. */
  stop(): void {
    this.#isStopped = true
    this.#abort.abort()
    for (const end of this.#sleepers) end()
    this.#wakeAll()
  }

  async #feed(): Promise<void> {
    const { input, concurrency, room, mostHeldBytes = mostHeldJobBytes } = this.#parts
    const window = Math.max(leastWindow, concurrency * windowFactor)
    while (!this.#isStopped && this.#error === null) {
      const free = Math.min(concurrency - this.#runningCount, window - this.#slots.length)
      if (free <= 0 || this.#heldBytes > mostHeldBytes) {
        await this.#woken()
        continue
      }
      const mayBegin = Math.min(free, room(this.#runningCount))
      if (mayBegin <= 0) {
        this.standsStillBecause = 'other callers need the model'
        await this.#sleep(Math.min(slowRoomWaitNs, Math.max(leastRoomWaitNs, this.#lineNs / 2)), true)
        continue
      }
      this.standsStillBecause = ''
      const items = await input.next(mayBegin)
      if (items === null) {
        this.#isInputOver = true
        return
      }
      if (items.length === 0) await this.#sleep(emptyWaitNs)
      for (const item of items) void this.#runLine(item)
    }
  }

  async #runLine(item: JobItem): Promise<void> {
    const slot: Slot = { item, answer: null, isFailed: false, reason: '', heldBytes: item.line.length }
    this.#slots.push(slot)
    this.#runningCount++
    this.#heldBytes += slot.heldBytes
    const { clock } = this.#parts
    const call = await readInSlices(this.#parts, item.line)
    const startNs = clock.nowNs()
    const answer = typeof call === 'string' ? refusal(400, call) : await this.#ask(call, item.earlierAttempts)
    this.#lineNs += (clock.nowNs() - startNs - this.#lineNs) * lineTimeShare
    this.#runningCount--
    if (answer !== null) {
      slot.isFailed = answer.status >= 400
      slot.reason = slot.isFailed ? errorOf(answer.body) : ''
      slot.answer = answerLine(typeof call === 'string' ? null : call, item.at, answer)
      slot.heldBytes += slot.answer.length
      this.#heldBytes += slot.answer.length
      this.#flushing ??= this.#flush().finally(() => (this.#flushing = null))
    }
    this.#wakeAll()
  }

  /** Null: the run was stopped. */
  async #ask(call: LineCall, earlierAttempts: number): Promise<LineAnswer | null> {
    const { maxAttempts } = this.#parts
    let attempts = earlierAttempts
    let backoffNs = firstBackoffNs
    if (attempts >= maxAttempts) return refusal(500, `the line was tried ${attempts} times, and each time the server ended before the answer`) // prettier-ignore
    for (;;) {
      const answer = await this.#parts.call(call, this.#abort.signal).catch((reason: unknown) => refusal(500, messageOf(reason))) // prettier-ignore
      if (this.#isStopped) return null
      if (answer.status < 500 && answer.status !== 429) return answer
      if (!notNow.has(answer.status) && ++attempts >= maxAttempts) return answer
      if (notNow.has(answer.status)) this.standsStillBecause = errorOf(answer.body)
      await this.#sleep(backoffNs)
      if (this.#isStopped) return null
      backoffNs = Math.min(backoffNs * 2, longestBackoffNs)
    }
  }

  /** Writes the answers at the head of the line, then marks their lines. */
  async #flush(): Promise<void> {
    const { input, output, counted } = this.#parts
    try {
      for (;;) {
        const open = this.#slots.findIndex(({ answer }) => answer === null)
        const ready = this.#slots.slice(0, open < 0 ? this.#slots.length : open)
        if (ready.length === 0 || this.#error !== null) return
        await output.write(ready.map(({ answer }) => answer ?? ''))
        let dead = 0
        for (const { item, isFailed, reason } of ready) if (isFailed && (await input.putAside(item, reason))) dead++
        await input.done(ready.map(({ item }) => item))
        this.#slots.splice(0, ready.length)
        for (const { heldBytes } of ready) this.#heldBytes -= heldBytes
        const failed = ready.filter(({ isFailed }) => isFailed).length
        counted('done', ready.length - failed)
        counted('failed', failed)
        counted('dead', dead)
        await this.#checkpointIfDue(ready.length)
        this.#wakeAll()
      }
    } catch (reason) {
      this.#error ??= reason
      this.#wakeAll()
    }
  }

  async #checkpointIfDue(lineCount: number): Promise<void> {
    this.#sinceCheckpoint += lineCount
    const nowNs = this.#parts.clock.nowNs()
    if (this.#sinceCheckpoint >= checkpointLines || nowNs - this.#checkpointNs >= checkpointNs) await this.#checkpoint()
  }

  async #checkpoint(): Promise<void> {
    const { input, output, clock, checkpoint } = this.#parts
    const position = input.position()
    this.#sinceCheckpoint = 0
    this.#checkpointNs = clock.nowNs()
    if (position === null) return
    await output.sync?.()
    const { writtenBytes } = output
    await checkpoint({ ...position, outputBytes: writtenBytes })
    await output.settled?.(writtenBytes)
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve))
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake()
    this.#endRoomWait?.()
  }

  /** `stop` ends it sooner; so does the end of a line, where it is a wait for room. */
  #sleep(delayNs: number, isForRoom = false): Promise<void> {
    if (this.#isStopped) return Promise.resolve()
    return new Promise((resolve) => {
      const end = (): void => {
        cancel()
        this.#sleepers.delete(end)
        if (isForRoom) this.#endRoomWait = null
        resolve()
      }
      const cancel = this.#parts.clock.after(delayNs, end)
      this.#sleepers.add(end)
      if (isForRoom) this.#endRoomWait = end
    })
  }
}

/** A long line is looked at a piece at a time, and others are served meanwhile. */
function readInSlices(
  { clock, inferTarget, onlyModel, mostCallBytes }: RunParts,
  line: Buffer,
): Promise<LineCall | string> {
  return inSlices(clock, readLine(line, inferTarget, onlyModel, mostCallBytes)).catch(messageOf)
}

const refusal = (status: number, message: string): LineAnswer => ({ status, body: Buffer.from(JSON.stringify({ error: message })) }) // prettier-ignore
