// The types of a custom backend, part of `galatea/model`.

import type { BatchAnswer, ModelArgs, ModelLog } from './model.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { ModelDescription } from './model-description.ts'
import type { ModelRequest } from './model-request.ts'

/** `state` is the result of `initialize`, the same for all models of the backend. */
export type BackendContext<State = unknown> = {
  readonly name: string
  /** The folder of `backend.ts`; for an npm package the working directory of the server. */
  readonly directory: string
  /** `--backend-config=<name>,<key>=<value>` */
  readonly settings: ReadonlyMap<string, string>
  readonly log: ModelLog
  readonly state: State
}

export type ModelContext<State = unknown, BackendState = unknown> = Pick<
  ModelArgs,
  'modelRepository' | 'modelDirectory' | 'versionDirectory'
> & {
  readonly backend: BackendContext<BackendState>
  readonly name: string
  readonly version: string
  readonly config: ModelConfig
  readonly log: ModelLog
  readonly state: State
}

export type InstanceContext<State = unknown, ModelState = unknown, BackendState = unknown> = {
  readonly model: ModelContext<ModelState, BackendState>
  readonly name: string
  readonly kind: 'CPU' | 'GPU' | 'MODEL'
  readonly deviceId: number
  readonly log: ModelLog
  readonly state: State
}

/**
 * The functions of a custom backend. All but `execute` are optional. The result of an initialise function becomes
 * the `state` of its context, for the functions that are called later.
 */
export type CustomBackendModule<B = unknown, M = unknown, I = unknown> = {
  initialize?(backend: BackendContext<undefined>): B | Promise<B>
  modelInitialize?(model: ModelContext<undefined, B>): M | Promise<M>
  instanceInitialize?(instance: InstanceContext<undefined, M, B>): I | Promise<I>
  execute(instance: InstanceContext<I, M, B>, requests: readonly ModelRequest[]): BatchAnswer | Promise<BatchAnswer>
  instanceFinalize?(instance: InstanceContext<I, M, B>): void | Promise<void>
  modelFinalize?(model: ModelContext<M, B>): void | Promise<void>
  finalize?(backend: BackendContext<B>): void | Promise<void>
  /** Returns settings that the model's configuration may leave out. Called before the model is initialised. */
  modelAutoCompleteConfig?(config: ModelConfig): ModelDescription | Promise<ModelDescription>
  /** Called every second; false takes the instance out of service. */
  instanceReady?(instance: InstanceContext<I, M, B>): boolean | Promise<boolean>
}

/** Returns `backend` unchanged, with its types checked: `export default defineBackend({ … })`. */
export const defineBackend = <B, M, I>(backend: CustomBackendModule<B, M, I>): CustomBackendModule<B, M, I> => backend
