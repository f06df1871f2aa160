/** Who made a call, as Admission found out. Access log, audit, traces and limits read it. */
export type Caller = {
  /** How the caller proved who it is; `anonymous` where nothing was asked for. */
  readonly kind: 'anonymous' | 'shared-key'
  /** Unique among callers; '' for the anonymous one. */
  readonly name: string
}

export const anonymous: Caller = { kind: 'anonymous', name: '' }
