// Host policies: on which cores the instances of a group run. `--host-policy=NAME,cpu-cores=0-3` defines one, and
// `instance_group { host_policy: "NAME" }` uses it. Pure.

import type { ModelInstanceGroup } from './model-config.ts'

export type HostPolicy = {
  /** As they were written: `cpu-cores`, `numa-node`. */
  readonly settings: ReadonlyMap<string, string>
  /** Ascending. */
  readonly cores: readonly number[]
}

export type HostPolicies = ReadonlyMap<string, HostPolicy>

type PlacedGroup = Pick<ModelInstanceGroup, 'kind' | 'hostPolicy'>

/** The cores of an instance of the group on that device; empty: all. */
export type CoresOf = (group: PlacedGroup, deviceId: number) => readonly number[]

/** Triton's rule: a group that names none has the policy of its device. */
export function hostPolicyName({ kind, hostPolicy }: PlacedGroup, deviceId: number): string {
  if (hostPolicy !== '') return hostPolicy
  if (kind === 'KIND_GPU') return `gpu_${deviceId}`
  return kind === 'KIND_MODEL' ? 'model' : 'cpu'
}

/** Empty: all cores. */
export const coresOf = (policies: HostPolicies, group: PlacedGroup, deviceId: number): readonly number[] =>
  policies.get(hostPolicyName(group, deviceId))?.cores ?? noCores

const noCores: readonly number[] = []

/** The masks of the system have 1024 bits. */
const mostCores = 1024

/** `0-3,8`, as the system writes lists of cores; null: it is none. */
export function parseCoreList(text: string): number[] | null {
  const cores = new Set<number>()
  for (const range of text.trim().split(',')) {
    const [, first = '', last = first] = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(range) ?? []
    if (first === '' || Number(last) < Number(first) || Number(last) >= mostCores) return null
    for (let core = Number(first); core <= Number(last); core++) cores.add(core)
  }
  return [...cores].toSorted((a, b) => a - b)
}
