// What a running model may ask of the server, answered by the Engine.

import type { Log } from './base/log.ts'
import { ServerError } from './base/server-error.ts'
import type { Engine } from './engine/engine.ts'
import { changeOrigin } from './model/change-origin.ts'
import type { CustomMetrics } from './model/custom-metrics.ts'
import type { ModelServices } from './model/model-services.ts'
import { encodeModelConfigJson } from './protocol/model-config-json.ts'
import { readOverride, uploadedFile } from './protocol/repository-request.ts'

/** The Engine comes as a function, because backends are made before the Engine. Backends call it only while it serves. */
export function createModelServices(engine: () => Engine, metrics: CustomMetrics, log: Log): ModelServices {
  const speaker = log.from('engine-services.ts')
  return {
    infer: (request) => engine().inferByName(request),
    findReadyModel: (name, version) => {
      if (!engine().isModelReady(name, version)) return null
      return { isDecoupled: engine().findVersion(name, version).signature.isDecoupled }
    },
    loadModel: async (name, config, files) => {
      engine().requireExplicitControl()
      const parameters = { config: config === '' ? null : config, files: uploadedFiles(files) }
      await engine().load(name, readOverride(name, parameters, speaker), changeOrigin('model'))
    },
    unloadModel: async (name, unloadDependents) => {
      engine().requireExplicitControl()
      await engine().unload(name, unloadDependents, changeOrigin('model'))
    },
    encodeConfig: encodeModelConfigJson,
    metrics,
  }
}

/** The names are those of load parameters, as clients write them: `file:1/model.onnx`. */
function uploadedFiles(parameters: ReadonlyMap<string, Uint8Array>): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>()
  for (const [parameter, bytes] of parameters) {
    const file = uploadedFile(parameter)
    if (file === null) {
      const expected = "the name of a file begins with 'file:', as 'file:1/model.py'"
      throw new ServerError('INVALID_ARG', `Unrecognized load parameter '${parameter}': ${expected}`)
    }
    files.set(file, bytes)
  }
  return files
}
