// Which versions of a model are in memory while versions take over step by step, and which version is new. Pure.

import { compareVersions } from '../repository/version-policy.ts'

type SelectionFacts = {
  /** All version folders. */
  readonly present: readonly string[]
  /** What the version policy makes of versions. */
  readonly ofPolicy: (versions: readonly string[]) => readonly string[]
  /** Withdrawn, with the same files. */
  readonly held: ReadonlySet<string>
  /** What requests without a version get now; '': nothing serves yet, and nothing is pinned. */
  readonly standard: string
  /** Versions above this one are new; '': none is. */
  readonly newest: string
  /** The model has a rollout file: a new version does not take over at once. */
  readonly hasFile: boolean
  /** A rollout asks, and nobody else: no new version takes over now. */
  readonly isRenewal: boolean
  /** What rollouts that have not ended need. */
  readonly needed: ReadonlySet<string>
  /** The candidates of live rollouts: they are new no more. */
  readonly candidates: ReadonlySet<string>
}

type Selection = {
  /** Lowest first. */
  readonly chosen: readonly string[]
  /** The version that a rollout must bring in; null: there is none. */
  readonly newcomer: string | null
  /** Without a rollout file: this version takes over at once, as in Triton; null: the standard version stays. */
  readonly takesOver: string | null
}

export function selectRelease(facts: SelectionFacts): Selection {
  const { present, held, newest, needed, candidates } = facts
  const standard = present.includes(facts.standard) ? facts.standard : ''
  const available = present.filter((version) => !held.has(version))
  const ofPolicy = facts.ofPolicy(available)
  const isNew = (version: string): boolean => newest !== '' && compareVersions(version, newest) > 0
  const fresh = ofPolicy.filter((version) => isNew(version) && !candidates.has(version))
  const highest = fresh.toSorted(compareVersions).at(-1) ?? null
  const isAtOnce = standard === '' || !(facts.hasFile || facts.isRenewal)
  const newcomer = isAtOnce ? null : highest
  const kept = ofPolicy.filter((version) => version !== newcomer && (!candidates.has(version) || needed.has(version)))
  const wanted = new Set([...kept, ...[...needed].filter((version) => present.includes(version))])
  const takesOver = isAtOnce ? highest : null
  if (standard !== '' && takesOver === null) wanted.add(standard)
  return {
    chosen: [...wanted].sort(compareVersions),
    newcomer,
    takesOver,
  }
}
