import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'
import { configMessage, type ModelConfig } from '../../config/model-config.ts'
import type { Backend, LoadedModel, ModelFiles, ModelVersionSource } from '../../model/backend.ts'
import { completeChatConfig } from '../complete-language-config.ts'
import { readRouteFile } from './route-plan.ts'
import { RouteTally } from './route-tally.ts'
import type { RouterParts } from './routed-call.ts'
import { RouterInstance } from './router-instance.ts'

const routeFile = 'route.yaml'

/** Language models that send each request on to one of several others. */
export class RouterBackend implements Backend {
  readonly name = 'router'
  readonly #parts: RouterParts

  constructor({ clock, services, chats }: RouterParts) {
    this.#parts = { clock, services, chats }
  }

  /** A router takes chats as they are: each model behind it has a template of its own. */
  complete(draft: ModelConfig): Promise<ModelConfig> {
    const isBare = draft.output.length === 0
    const completed = completeChatConfig(draft)
    if (isBare) {
      completed.output.push(configMessage('ModelOutput', { name: 'answered_by', dataType: 'TYPE_STRING', dims: [1] }))
    }
    return Promise.resolve(completed)
  }

  async load({ name, version, config, files, log }: ModelVersionSource): Promise<LoadedModel> {
    const { plan, problems } = await readRouteFile(fileOf(config, files), name)
    if (plan === null) {
      const { message = 'it cannot be read', fix = '', line = null } = problems[0] ?? {}
      const place = line === null ? '' : `, line ${line}`
      throw new ServerError(
        'INVALID_ARG',
        `model '${name}': ${routeFile}${place}: ${message}${fix === '' ? '' : `: ${fix}`}`,
      )
    }
    const tally = new RouteTally(this.#parts.services.metrics, { model: name, version, targets: plan.models })
    const router = { ...this.#parts, name, plan, tally, log: log.from('router-backend.ts') }
    return {
      createInstance: (spec) => Promise.resolve(new RouterInstance(router, spec)),
      close: () => {
        tally.close()
        return Promise.resolve()
      },
    }
  }

  close(): Promise<void> {
    this.#parts.chats.close()
    return Promise.resolve()
  }
}

const fileOf = ({ defaultModelFilename }: ModelConfig, { versionDirectory }: ModelFiles): string =>
  path.join(versionDirectory, defaultModelFilename === '' ? routeFile : defaultModelFilename)
