import type { CallerKind } from '../access/caller.ts'
import type { JobPosition } from './job-channel.ts'
import type { JobPlan } from './job-plan.ts'

/** WAITING: for its time (schedule). The others mean what they say. */
type JobState = 'WAITING' | 'RUNNING' | 'PAUSED' | 'DONE' | 'FAILED' | 'CANCELLED'

/** A job as it is kept over a restart. */
export type JobRecord = {
  readonly id: string
  readonly plan: JobPlan
  readonly author: string
  /** Left out in records of before: nobody knows how the author proved who it is. */
  readonly authorKind?: CallerKind
  readonly tenant: string
  readonly createdMs: number
  state: JobState
  /** Why the job failed or stands still; '' for no reason. */
  reason: string
  done: number
  failed: number
  /** Lines that were put aside among those that failed. */
  dead: number
  position: JobPosition | null
  /** Of the last run. */
  startedMs: number
  endedMs: number
}

export const isJobOver = ({ state }: JobRecord): boolean =>
  state === 'DONE' || state === 'FAILED' || state === 'CANCELLED'

/** Ids of jobs that are batches of OpenAI's API begin so. Nobody else chooses the id of a job. */
export const batchPrefix = 'batch_'

export const isBatch = ({ id }: Pick<JobRecord, 'id'>): boolean => id.startsWith(batchPrefix)
