import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { Backend, InstanceSpec, LoadedModel, ModelVersionSource } from '../../model/backend.ts'
import { completeChatConfig } from '../complete-language-config.ts'
import { UpstreamInstance, type Upstream } from './upstream-instance.ts'

const defaultTimeoutMs = 600_000
const defaultConcurrent = 64
const defaultKeyName = 'OPENAI_API_KEY'

/** Models of another OpenAI server. */
export class OpenAiBackend implements Backend {
  readonly name = 'openai'
  readonly #clock: Clock
  readonly #environment: NodeJS.ProcessEnv

  constructor({ clock }: { readonly clock: Clock }, environment: NodeJS.ProcessEnv = process.env) {
    this.#clock = clock
    this.#environment = environment
  }

  /** Chats go to the upstream as they are: it has the template. */
  complete(draft: ModelConfig): Promise<ModelConfig> {
    return Promise.resolve(completeChatConfig(draft))
  }

  async load({ config }: ModelVersionSource): Promise<LoadedModel> {
    const upstream = this.#upstreamOf(config)
    return {
      createInstance: (spec: InstanceSpec) => Promise.resolve(new UpstreamInstance(this.#clock, spec, upstream)),
      close: () => Promise.resolve(),
    }
  }

  #upstreamOf(config: ModelConfig): Upstream {
    const given = readParameter(config, 'upstream_url') ?? ''
    const url = URL.canParse(given) ? new URL(given) : null
    if (url === null || !/^https?:$/.test(url.protocol)) {
      const got = given === '' ? 'it is not there' : `got '${given}'`
      throw new ServerError(
        'INVALID_ARG',
        `model '${config.name}': parameter 'upstream_url' must be the address of an OpenAI server, as https://host/v1: ${got}`,
      )
    }
    // Whoever may see the configuration sees the address, and so does whoever gets an error of a call.
    if (url.username !== '' || url.password !== '') {
      throw new ServerError(
        'INVALID_ARG',
        `model '${config.name}': parameter 'upstream_url' has a user or a password: put the key into an environment variable and name it in 'api_key_env'`,
      )
    }
    const keyName = readParameter(config, 'api_key_env')
    const key = this.#environment[keyName ?? defaultKeyName] ?? ''
    if (keyName !== null && key === '') {
      throw new ServerError(
        'INVALID_ARG',
        `model '${config.name}': parameter 'api_key_env' names the environment variable ${keyName}, which is not set`,
      )
    }
    return {
      url: given.replace(/\/+$/, ''),
      key,
      model: readParameter(config, 'upstream_model') ?? config.name,
      timeoutMs: readParameter(config, 'upstream_timeout_ms') ?? defaultTimeoutMs,
      maxConcurrent: Math.max(1, readParameter(config, 'upstream_max_concurrent') ?? defaultConcurrent),
    }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
