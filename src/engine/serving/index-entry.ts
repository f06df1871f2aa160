import type { ModelVersionState } from '../../model/model-version.ts'

/** A row of the repository index. */
export type IndexEntry = {
  readonly name: string
  /** Only where models have namespaces. */
  readonly namespace?: string
  /** '' for a model of which no version was ever tried. */
  readonly version: string
  readonly state: ModelVersionState | ''
  readonly reason: string
}
