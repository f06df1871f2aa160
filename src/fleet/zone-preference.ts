// Whether the servers of a zone can carry what the Envoys of the zone bring. While they can, they come before the servers of other zones.

import type { FleetMap, MemberState } from './fleet-map.ts'
import type { FleetMember } from './fleet-member.ts'

/** From this mean pressure on, the servers of a zone share their requests with other zones. */
const fullPressure = 0.9
/** Below this pressure, and after this time, they have them for themselves again. Sooner, the share would swing to and fro. */
const roomyPressure = 0.6
const shareNs = 60e9

export class ZonePreference {
  /** Zone and model → since when the servers of the zone share. Others do not. */
  readonly #sharing = new Map<string, number>()

  /** `model`: '' for all models together. */
  isPreferred(zone: string, model: string): boolean {
    return zone !== '' && !this.#sharing.has(keyOf(zone, model))
  }

  /** Gives whether a preference has changed. */
  update(map: FleetMap, states: readonly MemberState[], nowNs: number): boolean {
    const stateOf = new Map(states.map((state) => [state.member.key, state]))
    const isKnown = new Set<string>()
    let hasChanged = false
    const look = (model: string, members: readonly FleetMember[]): void => {
      const sums = new Map<string, { pressure: number; count: number }>()
      const all = { pressure: 0, count: 0 }
      for (const { key, zone } of members) {
        const state = stateOf.get(key)
        const pressure = state?.pressures.get(model) ?? state?.pressure ?? 0
        const sum = sums.get(zone) ?? { pressure: 0, count: 0 }
        sums.set(zone, sum)
        for (const one of [sum, all]) {
          one.pressure += pressure
          one.count++
        }
      }
      for (const [zone, { pressure, count }] of sums) {
        if (zone === '' || count === all.count) continue
        const key = keyOf(zone, model)
        const own = pressure / count
        const elsewhere = (all.pressure - pressure) / (all.count - count)
        isKnown.add(key)
        const sinceNs = this.#sharing.get(key)
        if (sinceNs === undefined && own >= fullPressure && elsewhere < own) {
          this.#sharing.set(key, nowNs)
          hasChanged = true
        } else if (sinceNs !== undefined && own < roomyPressure && nowNs - sinceNs >= shareNs) {
          hasChanged = this.#sharing.delete(key)
        }
      }
    }
    look('', map.serving)
    for (const { name, members } of map.models.values()) look(name, members)
    for (const key of this.#sharing.keys()) if (!isKnown.has(key)) hasChanged = this.#sharing.delete(key)
    return hasChanged
  }
}

const keyOf = (zone: string, model: string): string => `${zone}\n${model}`
