import type { Rights } from './rights.ts'

/** How a caller proved who it is; `anonymous` where no proof was asked for or given. */
type CallerKind = 'anonymous' | 'shared-key' | 'api-key' | 'token' | 'certificate'

/** Who made a call, as Admission found out. Access log, audit, traces, limits, rollouts and fair shares read the Caller. */
export type Caller = {
  readonly kind: CallerKind
  /** The name of the one who calls, unique among callers; '' for the anonymous caller. */
  readonly principal: string
  /** Who pays: limits and fair shares count by tenant. '' without `--access-config`. */
  readonly tenant: string
  /** Groups that a token names; the names of the roles for other callers with `--access-config`. */
  readonly groups: readonly string[]
  /** What the caller may do. Null: there are no rules, everything. */
  readonly rights: Rights | null
}

const noGroups: readonly string[] = []

/** Every Caller is made here, so that all have one shape. */
export const makeCaller = (
  kind: CallerKind,
  principal: string,
  traits: { readonly tenant?: string; readonly groups?: readonly string[]; readonly rights?: Rights | null } = {},
): Caller => ({
  kind,
  principal,
  tenant: traits.tenant ?? '',
  groups: traits.groups ?? noGroups,
  rights: traits.rights ?? null,
})

export const anonymous: Caller = makeCaller('anonymous', '')
