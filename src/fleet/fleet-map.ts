// Which server has which model, and which servers get requests at all. Pure functions of what the servers said last.

import type { FleetMember } from './fleet-member.ts'

export type MemberHealth = 'unknown' | 'ready' | 'not ready' | 'unreachable'

/** What a server said last. */
export type MemberState = {
  readonly member: FleetMember
  readonly health: MemberHealth
  /** Wall clock: since when its health is so. */
  readonly sinceMs: number
  readonly reason: string
  /** Demand ÷ capacity of the whole server. */
  readonly pressure: number
  readonly pressures: ReadonlyMap<string, number>
  /** The versions that are ready, by the name of the model. */
  readonly models: ReadonlyMap<string, readonly string[]>
}

export type FleetModel = {
  readonly name: string
  readonly members: readonly FleetMember[]
  readonly versions: ReadonlyMap<string, readonly FleetMember[]>
  /** True: not every server that has the model has the same versions. */
  readonly differs: boolean
}

export type FleetMap = {
  /** The servers that get requests. */
  readonly serving: readonly FleetMember[]
  readonly models: ReadonlyMap<string, FleetModel>
}

/**
 * Servers that are not ready or cannot be reached get nothing. When no server is ready, those that only the control plane cannot
 * reach stay: Envoy's own health checks decide then.
 */
export function mapFleet(states: readonly MemberState[]): FleetMap {
  const ready = states.filter(({ health }) => health === 'ready')
  const used =
    ready.length > 0 ? ready : states.filter(({ health, models }) => health === 'unreachable' && models.size > 0)
  const sorted = [...used].sort((a, b) => (a.member.key < b.member.key ? -1 : 1))
  const models = new Map<string, { members: FleetMember[]; versions: Map<string, FleetMember[]> }>()
  for (const { member, models: held } of sorted) {
    for (const [name, versions] of held) {
      const model = models.get(name) ?? { members: [], versions: new Map<string, FleetMember[]>() }
      models.set(name, model)
      model.members.push(member)
      for (const version of versions) {
        const holders = model.versions.get(version)
        if (holders === undefined) model.versions.set(version, [member])
        else holders.push(member)
      }
    }
  }
  const named = [...models].sort(([a], [b]) => (a < b ? -1 : 1))
  return {
    serving: sorted.map(({ member }) => member),
    models: new Map(named.map(([name, { members, versions }]) => {
      const differs = [...versions.values()].some((holders) => holders.length !== members.length)
      return [name, { name, members, versions, differs }]
    })), // prettier-ignore
  }
}
