import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Backend, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import type { CustomMetrics } from '../../model/custom-metrics.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { ModelServices } from '../../model/model-services.ts'
import { IdentityInstance } from './identity-instance.ts'
import { identitySettings } from './identity-settings.ts'

const inputBytesFamily = 'input_byte_size_counter'

/** Answers a request with its own inputs: for tests and for measuring everything that is not the model. */
export class IdentityBackend implements Backend {
  readonly name = 'identity'
  readonly #clock: Clock
  readonly #log: Log
  readonly #metrics: CustomMetrics | null

  constructor(dependencies: { clock: Clock; log: Log; services?: Pick<ModelServices, 'metrics'> }) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('identity-backend.ts')
    this.#metrics = dependencies.services?.metrics ?? null
  }

  /** The model has no file, so there is nothing to add to config.pbtxt. */
  complete(draft: ModelConfig): Promise<ModelConfig> {
    return Promise.resolve(draft)
  }

  async load(source: ModelVersionSource): Promise<LoadedModel> {
    const settings = identitySettings(source.config)
    if (settings.creationDelayMs > 0) {
      this.#log.info('load is delayed by creation_delay_sec', {
        model: source.name,
        delay_ms: settings.creationDelayMs,
      })
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#clock.after(settings.creationDelayMs * 1e6, resolve)
      await promise
    }
    const clock = this.#clock
    const { count, remove } = this.#inputByteCounter(source)
    return {
      createInstance: (spec: InstanceSpec) =>
        Promise.resolve(new IdentityInstance({ clock, countInputBytes: count }, spec, source.signature, settings)),
      close: () => {
        remove()
        return Promise.resolve()
      },
    }
  }

  /** Triton's identity backend has this custom metric as an example, and tests look for it. */
  #inputByteCounter({ name, version }: ModelVersionSource): { count: (bytes: number) => void; remove: () => void } {
    const metrics = this.#metrics
    if (metrics === null) return { count: () => undefined, remove: () => undefined }
    metrics.createFamily(
      inputBytesFamily,
      'Cumulative input byte size of all requests received by the model',
      'counter',
    )
    const labels = new Map([
      ['model', name],
      ['version', version],
    ])
    const metric = metrics.createMetric(inputBytesFamily, labels, null)
    return { count: (bytes) => metrics.increment(metric, bytes), remove: () => metrics.remove(metric) }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
