// Instances that follow load, on a server that may have none. Their code is read with the first model that has `instances_max`.

import { availableParallelism } from 'node:os'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { OnDemand } from './base/on-demand.ts'
import { messageOf } from './base/server-error.ts'
import { scaleLimitsOf } from './config/scale-limits.ts'
import type { Engine } from './engine/engine.ts'
import type { ServedVersion } from './engine/serving/served-version.ts'
import type { InstanceScaler } from './scaling/instance-scaler.ts'
import type { ScaledFigures } from './telemetry/scaling-families.ts'

type ScalingParts = {
  readonly clock: Clock
  readonly log: Log
  readonly engine: () => Engine
}

export class LazyScaling {
  readonly #parts: ScalingParts
  readonly #opening = new OnDemand(() => this.#open())
  #scaler: InstanceScaler<ServedVersion> | null = null

  readonly #stateDirectory: string

  constructor(parts: ScalingParts, { stateDirectory }: { readonly stateDirectory: string }) {
    this.#parts = parts
    this.#stateDirectory = stateDirectory
  }

  /** A version has its instances. */
  readonly served = (version: ServedVersion): void => {
    if (scaleLimitsOf(version.config) === null) return
    this.#opening
      .get()
      .then((scaler) => scaler.add(version))
      .catch((reason: unknown) =>
        this.#parts.log.error(`the instances of model '${version.name}' do not follow its load: ${messageOf(reason)}`),
      )
  }

  figures(): Iterable<ScaledFigures> {
    return this.#scaler?.figures() ?? []
  }

  /** Null: no model of that name follows its load. */
  hold(model: string, more: number, secs: number): { readonly count: number } | null {
    return this.#scaler?.hold(model, more, secs) ?? null
  }

  close(): void {
    this.#scaler?.close()
  }

  async #open(): Promise<InstanceScaler<ServedVersion>> {
    const [{ InstanceScaler: Scaler }, { PatternBook }, { growthObstacle }, { usedGpuShare }, { machineReadings }] =
      await Promise.all([
        import('./scaling/instance-scaler.ts'),
        import('./scaling/pattern-book.ts'),
        import('./scaling/growth-obstacle.ts'),
        import('./telemetry/gpu-count.ts'),
        import('./telemetry/pressure-meter.ts'),
      ])
    const { clock, log, engine } = this.#parts
    this.#scaler = new Scaler({
      clock,
      log,
      coreCount: availableParallelism(),
      patterns: new PatternBook(log, this.#stateDirectory),
      scale: (version, count) => engine().scale(version, count),
      obstacle: ({ config }) => growthObstacle(config, () => machineReadings.memoryShare(), usedGpuShare),
      isStandard: (version) => engine().servedModel(version.name)?.latest === version,
    })
    return this.#scaler
  }
}
