// Metric families about rollouts: the page prints this table and the reference is made from it.

import { labelText, sampleLine, type MetricsText } from './metrics-text.ts'

export type RolloutFigures = {
  readonly rollout: string
  readonly model: string
  readonly state: string
  /** Ended rollouts are counted and told no more of. */
  readonly isLive: boolean
  /** Per cent. */
  readonly weight: number
  /** By metric: log₁₀ of the e-value. */
  readonly evidence: ReadonlyMap<string, number>
  readonly arms: readonly {
    readonly name: string
    readonly version: string
    readonly ended: Readonly<Record<string, number>>
  }[]
  readonly shadow: { readonly compared: number; readonly disagreed: number; readonly dropped: Readonly<Record<string, number>> } | null // prettier-ignore
}

export type RolloutSources = {
  readonly rollouts: () => readonly RolloutFigures[]
  /** Ended rollouts by result. */
  readonly results: () => ReadonlyMap<string, number>
  /** By model: labels and scores of answers that came, by what became of them. */
  readonly feedback: () => ReadonlyMap<string, Readonly<Record<string, number>>>
}

type RolloutFamily = {
  readonly name: string
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly label: string
  readonly lines: (text: MetricsText, sources: RolloutSources) => Iterable<string>
}

const live = ({ rollouts }: RolloutSources): readonly RolloutFigures[] => rollouts().filter(({ isLive }) => isLive)

/** Counters of a model go on from rollout to rollout. */
function summed(
  { rollouts }: RolloutSources,
  samplesOf: (figures: RolloutFigures) => Iterable<readonly [labels: string, value: number]>,
): Map<string, number> {
  const sums = new Map<string, number>()
  for (const figures of rollouts()) {
    for (const [labels, value] of samplesOf(figures)) sums.set(labels, (sums.get(labels) ?? 0) + value)
  }
  return sums
}

function* sumLines(text: MetricsText, name: string, sums: ReadonlyMap<string, number>): IterableIterator<string> {
  for (const [labels, value] of sums) yield sampleLine(text, name, labels, value)
}

export const rolloutFamilies: readonly RolloutFamily[] = [
  {
    name: 'galatea_rollout_weight',
    type: 'gauge',
    help: 'Share of requests that the candidate of a live rollout gets, in per cent',
    label: 'rollout',
    *lines(text, sources) {
      for (const { model, rollout, weight } of live(sources)) {
        yield sampleLine(text, this.name, labelText(Object.entries({ model, rollout })), weight)
      }
    },
  },
  {
    name: 'galatea_rollout_state',
    type: 'gauge',
    help: '1 for the state that a live rollout is in',
    label: 'rollout, state',
    *lines(text, sources) {
      for (const { model, rollout, state } of live(sources)) {
        yield sampleLine(text, this.name, labelText(Object.entries({ model, rollout, state })), 1)
      }
    },
  },
  {
    name: 'galatea_rollout_evidence',
    type: 'gauge',
    help: 'Evidence that the candidate of a live rollout is worse, as log10 of the e-value',
    label: 'rollout, metric',
    *lines(text, sources) {
      for (const { model, rollout, evidence } of live(sources)) {
        for (const [metric, value] of evidence) {
          yield sampleLine(text, this.name, labelText(Object.entries({ model, rollout, metric })), value)
        }
      }
    },
  },
  {
    name: 'galatea_rollouts_total',
    type: 'counter',
    help: 'Rollouts that have ended, by result, as far as the server remembers them',
    label: 'result',
    *lines(text, { results }) {
      for (const [result, count] of results()) yield sampleLine(text, this.name, labelText([['result', result]]), count)
    },
  },
  {
    name: 'galatea_variant_requests_total',
    type: 'counter',
    help: 'Requests that rollouts routed, by arm and outcome; hidden_error: the candidate failed and stable answered',
    label: 'version, arm, outcome',
    *lines(text, sources) {
      const samples = ({ model, arms }: RolloutFigures): (readonly [string, number])[] =>
        arms.flatMap(
          ({ name: arm, version, ended }) =>
          Object.entries(ended).map(([outcome, count]) => [labelText(Object.entries({ model, version, arm, outcome })), count] as const), // prettier-ignore
        )
      yield* sumLines(text, this.name, summed(sources, samples))
    },
  },
  ...(['compared', 'disagreed'] as const).map((what): RolloutFamily => ({
    name: `galatea_shadow_${what}_total`,
    type: 'counter',
    help:
      what === 'compared'
        ? 'Shadow copies whose answer was compared with that of stable'
        : 'Compared shadow copies whose answer differed',
    label: '',
    *lines(text, sources) {
      const samples = ({ model, shadow }: RolloutFigures): (readonly [string, number])[] =>
        shadow === null ? [] : [[labelText([['model', model]]), shadow[what]]]
      yield* sumLines(text, this.name, summed(sources, samples))
    },
  })),
  {
    name: 'galatea_shadow_dropped_total',
    type: 'counter',
    help: 'Shadow copies that were not made, by reason',
    label: 'reason',
    *lines(text, sources) {
      const samples = ({ model, shadow }: RolloutFigures): (readonly [string, number])[] =>
        Object.entries(shadow?.dropped ?? {}).map(([reason, count]) => [labelText(Object.entries({ model, reason })), count]) // prettier-ignore
      yield* sumLines(text, this.name, summed(sources, samples))
    },
  },
  {
    name: 'galatea_feedback_total',
    type: 'counter',
    help: 'Labels and scores of answers, by result; unknown: no rollout remembers the id',
    label: 'result',
    *lines(text, { feedback }) {
      for (const [model, counts] of feedback()) {
        for (const [result, count] of Object.entries(counts)) {
          yield sampleLine(text, this.name, labelText(Object.entries({ model, result })), count)
        }
      }
    },
  },
]

/** Nothing on a server without rollouts. */
export function* rolloutPieces(text: MetricsText, sources: RolloutSources): IterableIterator<string> {
  for (const family of rolloutFamilies) {
    let hasHead = false
    for (const lines of family.lines(text, sources)) {
      yield hasHead ? lines : text.familyHead(family.name, family.help, family.type) + lines
      hasHead = true
    }
  }
}
