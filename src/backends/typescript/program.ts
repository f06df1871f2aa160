import type { ModelConfig } from '../../config/model-config.ts'
import { describe } from './element-arrays.ts'
import type { Model, ModelArgs } from './model.ts'
import type { ModelDescription } from './model-description.ts'
import type { ModelRequest } from './model-request.ts'

/** The code that a Worker runs: a model or a custom backend. */
export type Program = {
  describe(config: ModelConfig): Promise<ModelDescription | null>
  /** `load` names one load of a version, which several instances may share. */
  initialize(args: ModelArgs, load: string): Promise<void>
  /** Returns an array with one answer per request, a promise of such an array, or nothing. The host checks it. */
  execute(requests: readonly ModelRequest[]): unknown
  readonly isReady: (() => unknown) | null
  finalize(): Promise<void>
}

/** A `model.ts`: named exports, or a default export that is an object or a class with those methods. */
export function modelProgram(exports: Readonly<Record<string, unknown>>, path: string): Program {
  const model = findModel(exports, path)
  const config = model.config ?? (exports['config'] as Model['config'])
  return {
    describe: async (draft) => (await model.autoCompleteConfig?.(draft)) ?? config ?? null,
    initialize: async (args) => model.initialize?.(args),
    execute: typeof model.execute === 'function' ? (requests) => model.execute?.(requests) : inferEach(model),
    isReady: typeof model.isReady === 'function' ? () => model.isReady?.() : null,
    finalize: async () => model.finalize?.(),
  }
}

function findModel(exports: Readonly<Record<string, unknown>>, path: string): Model {
  const fallback = exports['default']
  if (isModel(exports)) return exports
  if (isModel(fallback)) return fallback
  if (typeof fallback === 'function' && isModel(fallback.prototype)) {
    const ModelClass = fallback as new () => Model
    return new ModelClass()
  }
  const found = Object.keys(exports).join(', ')
  throw new TypeError(
    `'${path}' must export a function execute(requests) or infer(request), by name or on its default export; ` +
      (found === '' ? 'it exports nothing' : `it exports ${found}`) +
      (fallback === undefined ? '' : ` (default: ${describe(fallback)})`),
  )
}

const isModel = (candidate: unknown): candidate is Model =>
  typeof candidate === 'object' &&
  candidate !== null &&
  (typeof (candidate as Model).execute === 'function' || typeof (candidate as Model).infer === 'function')

/** Calls `infer` for each request: one that throws does not fail the others of its batch. */
function inferEach(model: Model): Program['execute'] {
  // An async function turns an error that is thrown at once into a rejection.
  const infer = async (request: ModelRequest): Promise<unknown> => model.infer?.(request)
  return (requests) => requests.map((request) => infer(request))
}
