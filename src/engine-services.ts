// What a running model may ask of the server, answered by the Engine.

import { ServerError } from './base/server-error.ts'
import type { Engine } from './engine/engine.ts'
import { changeOrigin } from './model/change-origin.ts'
import type { CustomMetrics } from './model/custom-metrics.ts'
import type { ModelServices } from './model/model-services.ts'
import { encodeModelConfigJson, parseModelConfigJson } from './protocol/model-config-json.ts'

/** The Engine comes as a function, because backends are made before the Engine. Backends call it only while it serves. */
export function createModelServices(engine: () => Engine, metrics: CustomMetrics): ModelServices {
  return {
    infer: (request) => engine().inferByName(request),
    findReadyModel: (name, version) => {
      if (!engine().isModelReady(name, version)) return null
      return { isDecoupled: engine().findVersion(name, version).signature.isDecoupled }
    },
    loadModel: async (name, config, files) => {
      engine().requireExplicitControl()
      if (config === '' && files.size > 0) {
        throw new ServerError('INVALID_ARG', "load parameter 'config' must be specified for model file override")
      }
      const override = config === '' ? null : { config: parseModelConfigJson(config), files }
      await engine().load(name, override, changeOrigin('model'))
    },
    unloadModel: async (name, unloadDependents) => {
      engine().requireExplicitControl()
      await engine().unload(name, unloadDependents, changeOrigin('model'))
    },
    encodeConfig: encodeModelConfigJson,
    metrics,
  }
}
