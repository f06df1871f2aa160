// One arm of a live rollout: where its requests go, and what became of them.

import type { ModelVersion } from '../model/model-version.ts'

/** What an arm is: stable, candidate or baseline of a rollout, or an arm of an experiment. */
export type ArmSettings = {
  readonly name: string
  /** The model of its version, which need not be the one that clients ask for. */
  readonly model: string
  readonly version: string
}

/** A request of an arm beside stable. */
export interface MovableRequest {
  /** Takes the request out of the queue of its arm; it runs on stable then. False: it has begun, or belongs to a sequence. */
  move(): boolean
}

/** How a request ended. `ignored`: the client went away, or the request was refused as a wrong one. */

type ArmOutcome = 'success' | 'error' | 'hidden_error' | 'ignored'

/** The header that says which arm answered: `<rollout>/<arm>/<version>`. A client may send it back. */
export const variantHeader = 'galatea-variant'

export class RolloutArm {
  readonly index: number
  readonly settings: ArmSettings
  /** `<rollout>/<arm>/<version>` */
  readonly variant: string
  /** The header with the variant. */
  readonly marks: readonly string[]
  readonly #find: (model: string, version: string) => ModelVersion
  /** Requests that the Engine has. Stable's are counted only: there are many, and nobody moves them. */
  readonly underWay: Set<MovableRequest> | null
  inFlight = 0
  /** Requests that chance alone sent here. */
  drawn = 0
  /** Ended requests that were judged. */
  judged = 0
  /** Ended requests by outcome, those that a rule forced included. A failure that ran again on stable is a `hidden_error`. */
  readonly ended: Record<ArmOutcome, number> = { success: 0, error: 0, hidden_error: 0, ignored: 0 }

  constructor(
    index: number,
    settings: ArmSettings,
    variant: string,
    find: (model: string, version: string) => ModelVersion,
  ) {
    this.index = index
    this.settings = settings
    this.variant = variant
    this.marks = [variantHeader, variant]
    this.#find = find
    this.underWay = index === 0 ? null : new Set()
  }

  /** Throws when the version is not there or does not serve. */
  find(): ModelVersion {
    return this.#find(this.settings.model, this.settings.version)
  }

  /** Null: it does not serve now. */
  ready(): ModelVersion | null {
    try {
      const version = this.find()
      return version.state === 'READY' ? version : null
    } catch {
      return null
    }
  }
}
