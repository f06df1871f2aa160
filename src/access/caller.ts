/** Who made a call, as Admission found out. Access log, audit, traces and limits read the Caller. */
export type Caller = {
  /** How the caller proved who it is; `anonymous` where no proof was asked for. */
  readonly kind: 'anonymous' | 'shared-key'
  /** Unique among callers; '' for the anonymous caller. */
  readonly name: string
}

export const anonymous: Caller = { kind: 'anonymous', name: '' }
