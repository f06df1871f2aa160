import type { ModelConfig } from '../config/model-config.ts'

export type TrialOutcome =
  | { readonly kind: 'loaded'; readonly config: ModelConfig }
  /** `hints`: what the server would log beside the reason. */
  | { readonly kind: 'failed'; readonly reason: string; readonly hints: readonly string[] }
  | { readonly kind: 'unfinished'; readonly seconds: number }

/** Loads models as a server does, one by one, and lets go of them. The code of a model runs in processes of its own. */
export type LoadTrial = {
  load(root: string, name: string): Promise<TrialOutcome>
  close(): Promise<void>
}
