// What is not ready and why, as the Engine reports it. Types only.

import type { ModelVersionState } from './model-version.ts'

/** STARTING → READY → EXITING → CLOSED; a server that fails to start goes to EXITING too. */
export type EngineState = 'STARTING' | 'READY' | 'EXITING' | 'CLOSED'

export type InstanceHealth = {
  readonly name: string
  readonly isReady: boolean
  readonly isHung: boolean
  readonly restartCount: number
  /** Why the Worker last ended; '' when it never did. */
  readonly lastError: string
}

export type VersionHealth = {
  readonly model: string
  readonly version: string
  readonly state: ModelVersionState | 'SLEEPING'
  /** Why it is not ready; '' when it is. */
  readonly reason: string
  readonly isReady: boolean
  readonly inFlightCount: number
  readonly pendingCount: number
  readonly instances: readonly InstanceHealth[]
}

/** A load that has begun and not ended. */
export type LoadUnderWay = {
  readonly model: string
  readonly seconds: number
  /** When it began, in milliseconds since 1970. */
  readonly sinceMs: number
}

export type HealthReport = {
  readonly state: EngineState
  readonly isLive: boolean
  readonly isReady: boolean
  readonly isStrict: boolean
  /** In words. */
  readonly reasons: readonly string[]
  readonly models: readonly VersionHealth[]
  /** The oldest first. */
  readonly loading: readonly LoadUnderWay[]
}
