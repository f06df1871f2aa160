// How a rollout is named wherever it shows.

export type Summary = {
  readonly name: string
  /** An experiment has arms in the place of stable, candidate, steps and weight. */
  readonly kind: 'rollout' | 'experiment'
  readonly arms: readonly { readonly arm: string; readonly version: string; readonly weight?: number }[]
  readonly model: string
  readonly state: string
  readonly pause_reason?: string
  readonly reason: string
  readonly step: number
  readonly steps: number
  readonly weight: number
  readonly shadow: number
  readonly stable?: string
  readonly candidate?: string
  readonly author: string
  readonly since: string
}

type RolloutTone = 'good' | 'warn' | 'bad' | 'calm' | 'busy'

const tones: Readonly<Record<string, RolloutTone>> = {
  RUNNING: 'busy',
  PENDING: 'busy',
  PROMOTING: 'busy',
  PAUSED: 'warn',
  SUCCEEDED: 'good',
  ENDED: 'good',
  ROLLING_BACK: 'bad',
  ROLLED_BACK: 'bad',
  FAILED: 'bad',
  CANCELLED: 'calm',
}

export const versionsText = ({ kind, arms, stable = '–', candidate = '–' }: Summary): string =>
  kind === 'experiment' ? arms.map(({ arm, version }) => `${arm} ${version}`).join(' / ') : `${stable} → ${candidate}`

/** What a state means at a glance. */
export const rolloutTone = (state: string): RolloutTone => tones[state] ?? 'calm'

export const rolloutIsOver = (state: string): boolean => tones[state] !== 'busy' && state !== 'PAUSED'

export const rolloutWords = (state: string): string => state.toLowerCase().replaceAll('_', ' ')
