import type { ModelPins, ReleaseRecord } from './release-record.ts'

export type KeptReleases = { readonly records: readonly ReleaseRecord[]; readonly pins: readonly ModelPins[] }

/** Where rollouts outlive the process. A write that has resolved survives the death of the process. */
export interface ReleaseStore {
  read(): Promise<KeptReleases>
  saveRecord(record: ReleaseRecord): Promise<void>
  savePins(pins: ModelPins): Promise<void>
  removeRecord(name: string): Promise<void>
  close(): Promise<void>
}
