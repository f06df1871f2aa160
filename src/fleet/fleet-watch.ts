// Asks every server of the fleet once a second how it is, and tells when the fleet has changed.

import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import type { AskMember } from './ask-member.ts'
import type { MemberHealth, MemberState } from './fleet-map.ts'
import type { FleetMember } from './fleet-member.ts'

/** Without an answer for so many questions a server is out. A refused connection is an answer. */
const silencesUntilOut = 2
const everyNs = 1e9

type FleetWatchParts = {
  readonly clock: Clock
  readonly log: Log
  readonly ask: AskMember
  /** The servers of now. May reject: the servers of before stay. */
  readonly members: () => Promise<readonly FleetMember[]>
}

/** `load`: how loaded servers are, and nothing else. */
export type FleetChange = 'servers' | 'load'

type Watched = {
  state: MemberState
  /** What the models of the state were read for; '' when they are to be read. */
  modelsKey: string
  silences: number
  isAsked: boolean
}

const noModels: ReadonlyMap<string, readonly string[]> = new Map()

export class FleetWatch {
  readonly #parts: FleetWatchParts
  readonly #log: Log
  readonly #mostMembers: number
  readonly #watched = new Map<string, Watched>()
  readonly #isSequence = new Map<string, boolean>()
  readonly #changed: (what: FleetChange) => void
  #cancel: Cancel = () => undefined
  #isClosed = false

  /** `changed` is called after each answer of a server. */
  constructor(parts: FleetWatchParts, mostMembers: number, changed: (what: FleetChange) => void) {
    this.#parts = parts
    this.#log = parts.log.from('fleet-watch.ts')
    this.#mostMembers = mostMembers
    this.#changed = changed
  }

  states(): MemberState[] {
    return [...this.#watched.values()].map(({ state }) => state)
  }

  sequenceModels(): ReadonlySet<string> {
    return new Set([...this.#isSequence].filter(([, isSequence]) => isSequence).map(([name]) => name))
  }

  /** Resolves when every server has been asked once. */
  async start(): Promise<void> {
    await this.#round()
    const again = (): void => {
      if (this.#isClosed) return
      this.#cancel = this.#parts.clock.after(everyNs, () => {
        void this.#round()
        again()
      })
    }
    again()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
  }

  async #round(): Promise<void> {
    await this.#findMembers()
    await Promise.all(
      [...this.#watched.values()].filter(({ isAsked }) => !isAsked).map((watched) => this.#look(watched)),
    )
  }

  async #findMembers(): Promise<void> {
    let found: readonly FleetMember[]
    try {
      found = await this.#parts.members()
    } catch (reason) {
      this.#log.warning('the servers of the fleet cannot be found, those of before stay', { reason: messageOf(reason) })
      return
    }
    if (found.length > this.#mostMembers) {
      this.#log.error('the fleet has more servers than --max-members allows: the first are used', {
        servers: found.length,
        max_members: this.#mostMembers,
      })
    }
    const members = new Map(found.slice(0, this.#mostMembers).map((member) => [member.key, member]))
    let hasChanged = false
    for (const key of this.#watched.keys()) if (!members.has(key)) hasChanged = this.#watched.delete(key)
    for (const member of members.values()) {
      if (this.#watched.has(member.key)) continue
      const state = { member, health: 'unknown', sinceMs: this.#parts.clock.wallMs(), reason: 'not asked yet', pressure: 0, pressures: new Map<string, number>(), models: noModels } as const // prettier-ignore
      this.#watched.set(member.key, { state, modelsKey: '', silences: 0, isAsked: false })
    }
    if (hasChanged) this.#changed('servers')
  }

  async #look(watched: Watched): Promise<void> {
    const { member } = watched.state
    watched.isAsked = true
    try {
      const { isReady, reason, models: key, pressure, pressures } = await this.#parts.ask.readiness(member)
      watched.silences = 0
      let { models } = watched.state
      if (isReady && (key === '' || key !== watched.modelsKey)) {
        models = await this.#parts.ask.models(member)
        await this.#learnKinds(member, models)
        watched.modelsKey = key
      }
      this.#note(watched, isReady ? 'ready' : 'not ready', reason, { pressure, pressures, models })
    } catch (reason) {
      const text = messageOf(reason)
      watched.silences++
      watched.modelsKey = ''
      const isRefused = text.includes('ECONNREFUSED')
      if (isRefused || watched.silences >= silencesUntilOut || watched.state.health === 'unknown') {
        this.#note(watched, 'unreachable', text, { pressure: 0 })
      }
    }
    watched.isAsked = false
  }

  /** Models with sequences are told from the others once; their names are few. */
  async #learnKinds(member: FleetMember, models: ReadonlyMap<string, unknown>): Promise<void> {
    for (const name of models.keys()) {
      if (!this.#isSequence.has(name)) this.#isSequence.set(name, await this.#parts.ask.isSequenceModel(member, name))
    }
  }

  #note(watched: Watched, health: MemberHealth, reason: string, more: Partial<MemberState>): void {
    if (this.#isClosed || !this.#watched.has(watched.state.member.key)) return
    const { state } = watched
    const isSame = state.health === health
    if (!isSame) this.#log.info('server of the fleet', { server: state.member.key, state: health, reason })
    const isOnlyLoad = isSame && (more.models ?? state.models) === state.models
    watched.state = { ...state, ...more, health, reason, sinceMs: isSame ? state.sinceMs : this.#parts.clock.wallMs() }
    this.#changed(isOnlyLoad ? 'load' : 'servers')
  }
}
