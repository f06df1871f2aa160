// Which server gets a request: one that has the model; the one that holds its sequence, or whose cache has the beginning of its prompt;
// else the better of two that are drawn, by (requests under way + 1) × latency × (1 + pressure).

import { createHash } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import type { FleetMap, MemberState } from './fleet-map.ts'
import type { FleetMember } from './fleet-member.ts'
import type { RequestFacts } from './request-peek.ts'
import { ZonePreference } from './zone-preference.ts'

/** Sequences that are remembered; of more, the longest unused are forgotten and found again by their hash. */
const mostSequences = 100_000
/** A server that has more than so many times the mean of requests under way gets no request for the sake of its cache. */
const busiestForPrefix = 1.25
/** How much the last answer counts in the latency of a server. */
const latencyShare = 0.2
/** Without answers the latency of a server halves in this time: one that was slow, or failed, is tried again. */
const forgetNs = 5e9
/** A server that fails counts as slow, however soon it does. */
const failedMs = 1000
/** Servers that are named beside the first, for repeats. */
const spareCount = 2

type PickReason = 'sequence' | 'prompt' | 'stream' | 'load' | 'none'

type Pick = {
  readonly reason: PickReason
  /** The best first; empty: no server is known to have the model. */
  readonly members: readonly FleetMember[]
}

type Load = { inFlight: number; streams: number; latencyMs: number; answeredNs: number; pressure: number }

/** A request on its way to the server that was picked. */
export type PickedCall = {
  /** `isFailure`: the server could not do it. */
  answered(isFailure: boolean): void
  ended(): void
}

const nobody: Pick = { reason: 'none', members: [] }

export class EndpointPicker {
  readonly #zones: ZonePreference
  readonly #random: () => number
  #updatedNs = 0
  #map: FleetMap = { serving: [], models: new Map() }
  readonly #loads = new Map<string, Load>()
  /** Model and id → the key of the server; the longest unused first. */
  readonly #sequences = new Map<string, string>()
  readonly picks: Record<PickReason, number> = { sequence: 0, prompt: 0, stream: 0, load: 0, none: 0 }

  constructor(zones: ZonePreference = new ZonePreference(), random: () => number = Math.random) {
    this.#zones = zones
    this.#random = random
  }

  update(map: FleetMap, states: readonly MemberState[], nowNs: number): void {
    this.#map = map
    for (const load of this.#loads.values()) {
      if (load.answeredNs < this.#updatedNs) load.latencyMs *= 0.5 ** ((nowNs - this.#updatedNs) / forgetNs)
    }
    this.#updatedNs = nowNs
    const known = new Set(states.map(({ member }) => member.key))
    for (const key of this.#loads.keys()) if (!known.has(key)) this.#loads.delete(key)
    for (const { member, pressure } of states) this.#loadOf(member.key).pressure = pressure
  }

  loadOf(key: string): Readonly<Load> {
    return this.#loadOf(key)
  }

  /** `zone`: where the Envoy is that asks; '' where nobody said. */
  pick(facts: RequestFacts, zone = ''): Pick {
    const made = this.#pick(facts, zone)
    this.picks[made.reason]++
    return made
  }

  /** A request is under way until `ended` is called. */
  begin(member: FleetMember, clock: Clock, isStream: boolean): PickedCall {
    const load = this.#loadOf(member.key)
    const kind = isStream ? 'streams' : 'inFlight'
    load[kind]++
    const startNs = clock.nowNs()
    let isUnderWay = true
    return {
      answered: (isFailure) => {
        const nowNs = clock.nowNs()
        // The first answer of a stream comes when the client wants it.
        if (isStream) return
        const ms = Math.max((nowNs - startNs) / 1e6, isFailure ? failedMs : 0)
        load.answeredNs = nowNs
        load.latencyMs = load.latencyMs === 0 ? ms : load.latencyMs + (ms - load.latencyMs) * latencyShare
      },
      ended: () => {
        if (isUnderWay) load[kind]--
        isUnderWay = false
      },
    }
  }

  #pick({ model, version, sequence, isSequenceEnd, prompt, isStream }: RequestFacts, zone: string): Pick {
    const known = this.#map.models.get(model)
    const members = (version === '' ? known?.members : known?.versions.get(version)) ?? []
    if (members.length === 0) return nobody
    const near = this.#near(members, zone, model)
    if (isStream) return this.#chosen('stream', this.#fewestStreams(near), members)
    if (sequence !== '') return this.#pickSequence(`${model}\n${sequence}`, isSequenceEnd, members)
    if (prompt !== '') {
      const cached = rendezvous(`${model}\n${prompt}`, near)
      if (cached !== null && this.#hasRoom(cached, near)) return this.#chosen('prompt', cached, members)
    }
    return this.#chosen('load', this.#better(near), members)
  }

  /** The servers of the zone, while they have room; else all. */
  #near(members: readonly FleetMember[], zone: string, model: string): readonly FleetMember[] {
    if (zone === '' || !this.#zones.isPreferred(zone, model)) return members
    const near = members.filter((member) => member.zone === zone)
    return near.length > 0 ? near : members
  }

  #pickSequence(id: string, isEnd: boolean, members: readonly FleetMember[]): Pick {
    const held = this.#sequences.get(id)
    const holder = members.find(({ key }) => key === held) ?? (rendezvous(id, members) as FleetMember)
    this.#sequences.delete(id)
    if (!isEnd) this.#sequences.set(id, holder.key)
    if (this.#sequences.size > mostSequences) {
      const [oldest = ''] = this.#sequences.keys()
      this.#sequences.delete(oldest)
    }
    // Only this server knows the sequence: there are no spares.
    return { reason: 'sequence', members: [holder] }
  }

  /** A stream stays for long: the number of streams says more than one look at the load. */
  #fewestStreams(members: readonly FleetMember[]): FleetMember {
    const cost = ({ key }: FleetMember): number => {
      const { streams, pressure } = this.#loadOf(key)
      return (streams + 1) * Math.max(1, pressure)
    }
    return members.reduce((least, member) => (cost(member) < cost(least) ? member : least))
  }

  #hasRoom(member: FleetMember, members: readonly FleetMember[]): boolean {
    const total = members.reduce((sum, { key }) => sum + this.#loadOf(key).inFlight, 0)
    return this.#loadOf(member.key).inFlight <= Math.ceil(((total + 1) / members.length) * busiestForPrefix)
  }

  #better(members: readonly FleetMember[]): FleetMember {
    const at = Math.floor(this.#random() * members.length)
    const first = members[at] as FleetMember
    if (members.length === 1) return first
    const other = members[(at + 1 + Math.floor(this.#random() * (members.length - 1))) % members.length] as FleetMember
    return this.#cost(other) < this.#cost(first) ? other : first
  }

  #cost({ key }: FleetMember): number {
    const { inFlight, latencyMs, pressure } = this.#loadOf(key)
    return (inFlight + 1) * Math.max(latencyMs, 0.1) * (1 + pressure)
  }

  /** A request that fails is repeated in another zone first: a zone that is lost takes the servers next to the first one with it. */
  #chosen(reason: PickReason, first: FleetMember, members: readonly FleetMember[]): Pick {
    const chosen = [first]
    const at = members.indexOf(first)
    for (const isElsewhere of first.zone === '' ? [false] : [true, false]) {
      for (let i = 1; i < members.length && chosen.length <= spareCount; i++) {
        const other = members[(at + i) % members.length] as FleetMember
        if (!chosen.includes(other) && (!isElsewhere || chosen.every(({ zone }) => zone !== other.zone))) chosen.push(other) // prettier-ignore
      }
    }
    return { reason, members: chosen }
  }

  #loadOf(key: string): Load {
    let load = this.#loads.get(key)
    if (load === undefined)
      this.#loads.set(key, (load = { inFlight: 0, streams: 0, latencyMs: 0, answeredNs: 0, pressure: 0 }))
    return load
  }
}

const hashes = new WeakMap<FleetMember, number>()
const hashOf = (text: string): number => createHash('sha256').update(text).digest().readUInt32BE(0)

/** The member with the highest hash together with `id`: when a member leaves, only what it had goes elsewhere. */
function rendezvous(id: string, members: readonly FleetMember[]): FleetMember | null {
  const idHash = hashOf(id)
  let [best, highest]: [FleetMember | null, number] = [null, -1]
  for (const member of members) {
    let hash = hashes.get(member)
    if (hash === undefined) hashes.set(member, (hash = hashOf(member.key)))
    const weight = mixed(idHash ^ hash)
    if (weight > highest) [best, highest] = [member, weight]
  }
  return best
}

/** The last step of MurmurHash3: every bit of the number changes about half of the bits of the result. */
function mixed(number: number): number {
  let value = Math.imul(number ^ (number >>> 16), 0x85eb_ca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2_ae35)
  return (value ^ (value >>> 16)) >>> 0
}
