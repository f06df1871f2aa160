// Where the lines of a job come from and where its answers go. Files and the three kinds of queues implement both sides.

/** One line to run. */
export type JobItem = {
  readonly line: Buffer
  /** Names the line in answers and in messages: `in/a.jsonl:17`, the id of a message. */
  readonly at: string
  /** How often the line was given out before, by another run that did not come to its end. */
  readonly earlierAttempts: number
  /** What the input needs to mark the line as done. */
  readonly mark: unknown
}

/** What a file job needs to go on after a restart; null for queues, which keep it themselves. */
export type JobPosition = {
  readonly file: number
  readonly offset: number
  readonly line: number
  readonly outputBytes: number
}

export interface JobInput {
  /** The next lines, at most `most`. Empty: none now, ask again. Null: there are no more. */
  next(most: number): Promise<JobItem[] | null>
  /** The answers of these lines are written. Lines are marked in the order in which they were given out. */
  done(items: readonly JobItem[]): Promise<void>
  /** The line failed for good. True: the line was put aside (dead letters), and needs no answer. */
  putAside(item: JobItem, reason: string): Promise<boolean>
  /** How many lines wait; null: unknown. */
  left(): Promise<number | null>
  /** Null for a queue. */
  position(): Omit<JobPosition, 'outputBytes'> | null
  close(): Promise<void>
}

export interface JobOutput {
  /** Resolves when the lines cannot be lost any more. */
  write(lines: readonly string[]): Promise<void>
  /** What was written outlives a crash of the machine. */
  sync?(): Promise<void>
  /** A checkpoint covers so many bytes: they will not be cut off any more. */
  settled?(bytes: number): Promise<void>
  /** The input is over and all answers are written. */
  finish?(): Promise<void>
  /** The length of a file; 0 for a queue. */
  readonly writtenBytes: number
  close(): Promise<void>
}
