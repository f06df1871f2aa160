import type { Account } from './account.ts'
import type { Rights } from './rights.ts'

/** How a caller proved who it is; `anonymous` where no proof was asked for or given. */
export type CallerKind = 'anonymous' | 'shared-key' | 'api-key' | 'token' | 'certificate'

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
  /** Where the caller's use is counted. Null: nothing is counted by tenant, and there are no limits. */
  readonly account: Account | null
  /** True: work that nobody waits for, as lines of jobs. It has the lowest priority that a model knows, whatever the request says. */
  readonly isBackground: boolean
}

const noGroups: readonly string[] = []

/** Every Caller is made here, so that all have one shape. */
export const makeCaller = (
  kind: CallerKind,
  principal: string,
  traits: Partial<Pick<Caller, 'tenant' | 'groups' | 'rights' | 'account' | 'isBackground'>> = {},
): Caller => ({
  kind,
  principal,
  tenant: traits.tenant ?? '',
  groups: traits.groups ?? noGroups,
  rights: traits.rights ?? null,
  account: traits.account ?? null,
  isBackground: traits.isBackground ?? false,
})

export const anonymous: Caller = makeCaller('anonymous', '')
