import type { ModelVersionPolicy } from '../config/model-config.ts'

const maxVersion = 2n ** 63n - 1n

/** A version folder is a whole number written without leading zeros. */
export const isVersionName = (name: string): boolean =>
  /^(?:0|[1-9][0-9]{0,18})$/.test(name) && BigInt(name) <= maxVersion

export const compareVersions = (a: string, b: string): number =>
  a.length === b.length ? (a < b ? -1 : Number(a > b)) : a.length - b.length

/** Which of the present versions to serve, ascending. Without a policy: the latest one. */
export function selectVersions(policy: ModelVersionPolicy | null, versions: readonly string[]): string[] {
  const present = versions.toSorted(compareVersions)
  if (policy?.all) return present
  if (policy?.specific) {
    const wanted = new Set(policy.specific.versions.map(String))
    return present.filter((version) => wanted.has(version))
  }
  // An empty `version_policy { }` makes no choice, which to Triton means all.
  if (policy !== null && policy.latest === null) return present
  const count = policy?.latest?.numVersions ?? 1
  return count === 0 ? [] : present.slice(-count)
}

/** Versions that a `specific` policy asks for and that do not exist. They cause a warning, not a refusal. */
export function absentVersions(policy: ModelVersionPolicy | null, versions: readonly string[]): string[] {
  const present = new Set(versions)
  return (policy?.specific?.versions ?? []).map(String).filter((version) => !present.has(version))
}
