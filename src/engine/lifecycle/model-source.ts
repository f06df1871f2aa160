import type { ModelConfig } from '../../config/model-config.ts'
import type { ModelKey } from '../../model/model-key.ts'
import type { PolledModel } from '../../repository/model-repository.ts'

/** What the Engine needs of the repositories: the models that are there now. */
export interface ModelSource {
  poll(): Promise<PolledModel[]>
  /** Null when no repository has the model. `override` replaces the model's configuration file. */
  pollOne(key: ModelKey, override?: ModelConfig | null): Promise<PolledModel | null>
  /** A model in a folder outside the repositories: `<root>/<name>`. */
  pollDirectory(key: ModelKey, root: string, override: ModelConfig | null): Promise<PolledModel>
  /** The names of all models, sorted; with namespaces their keys. */
  names(): Promise<ModelKey[]>
  /** The models that are in two or more repositories. */
  duplicates?(): Promise<ReadonlySet<ModelKey>>
  /** The models that a name stands for. Absent: models have no namespaces. */
  keysOf?(name: string): Promise<ModelKey[]>
}
