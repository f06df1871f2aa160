import type { EvidenceSums } from '../rollouts/judge/metric-sums.ts'
import type { KeptGoal } from '../rollouts/judge/experiment-report.ts'
import type { FeedbackEntry } from '../rollouts/feedback.ts'
import type { ModelPins, PinChange, ReleaseRecord } from './release-record.ts'

/** What one server has seen of a rollout. */
export type ServerEvidence = {
  readonly sums: EvidenceSums
  readonly requests: number
  readonly compared: number
  /** Of an experiment: its values by goal. */
  readonly goals?: Readonly<Record<string, KeptGoal>>
}

/** The rollouts of several servers: each of them sees the same states, one of them goes on, all of them may roll back. */
export interface SharedRollouts {
  /** Nothing can be read or written now. */
  readonly isAway: boolean
  /** Whether this server moves the rollout on. */
  isLeader(name: string): boolean
  /** What the other servers have seen, as of the last second. */
  others(name: string): readonly ServerEvidence[]
  /** The number of servers that take part, this one included. */
  serverCount(name: string): number
  /**
   * Writes the record where the state that is kept has the generation `expected` (0: there is none). Null: it is written;
   * else the record that another server wrote. Rejects while the store is away.
   */
  write(record: ReleaseRecord, expected: number): Promise<ReleaseRecord | null>
  /** To be sent with the next exchange. */
  report(name: string, evidence: ServerEvidence): void
  /** Once a second: sends what was reported, and gives the records that have changed. Rejects while the store is away. */
  exchange(names: readonly string[], known: ReadonlyMap<string, number>): Promise<readonly ReleaseRecord[]>
  /** The pins of all models; null: they are those of this revision. Rejects while the store is away. */
  readPins(known: string): Promise<{ readonly revision: string; readonly pins: readonly ModelPins[] } | null>
  /** Other parts of the pins stay as another server has written them. */
  writePins(model: string, change: PinChange): Promise<void>
  /** Sends feedback to all other servers. False: the store is away. */
  sendFeedback(model: string, entries: readonly FeedbackEntry[]): boolean
  close(): Promise<void>
}
