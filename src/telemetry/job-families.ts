// Metric families of jobs: the page prints this table and the reference is made from it.

import { labelText, sampleLine, type MetricsText } from './metrics-text.ts'

/** Lines of one model's jobs since the start. */
type JobLines = { readonly done: number; readonly failed: number; readonly dead: number }

export type JobSources = {
  /** By model. */
  lines(): ReadonlyMap<string, JobLines>
  /** How many jobs are in each state. */
  states(): ReadonlyMap<string, number>
}

export const jobLines = {
  name: 'galatea_job_lines_total',
  help: 'Lines of jobs that were answered (done), that failed, and of these the ones put aside (dead)',
}
export const jobStates = { name: 'galatea_jobs', help: 'Jobs by their state' }

export function* jobPieces(text: MetricsText, sources: JobSources): IterableIterator<string> {
  const lines = [...sources.lines()].flatMap(
    ([model, of]) =>
    (['done', 'failed', 'dead'] as const).map((outcome) => sampleLine(text, jobLines.name, labelText([['model', model], ['outcome', outcome]]), of[outcome])), // prettier-ignore
  )
  if (lines.length > 0) yield text.familyHead(jobLines.name, jobLines.help, 'counter') + lines.join('')
  const states = [...sources.states()].map(([state, count]) => sampleLine(text, jobStates.name, labelText([['state', state]]), count)) // prettier-ignore
  if (states.length > 0) yield text.familyHead(jobStates.name, jobStates.help, 'gauge') + states.join('')
}
