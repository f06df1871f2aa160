import type { FileSignature } from '../config/compare-signature.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { ModelFiles } from '../model/backend.ts'
import type { FileProblem } from '../model/file-problem.ts'

/** What `galatea check` asks about the files and the backend of a model. It reads files and runs nothing of a model. */
export type ModelInspector = {
  /** That a server with the same flags would have. */
  readonly gpuCount: number
  readonly leastCapability?: number
  /** False: a server with the same flags has no backend of this name, nor does the model bring one. */
  hasBackend(name: string, model: { readonly config: ModelConfig; readonly files: ModelFiles }): Promise<boolean>
  /** What the model file says about its tensors; null when nothing in this program can read that kind of file. */
  readSignature(file: string): Promise<FileSignature | null>
  /** The configuration as the backend would complete it from the file. Throws what the load would throw. */
  complete(config: ModelConfig, file: string): Promise<ModelConfig>
  /** What keeps the file from loading, as far as the file alone tells. */
  problemsOf(config: ModelConfig, file: string, modelDirectory: string): Promise<readonly FileProblem[]>
  /** What the backend would warn of, or what in the file is hardly meant. */
  warningsOf(config: ModelConfig, file: string): Promise<readonly FileProblem[]>
  /** Why `model_warmup` would fail before anything runs; null: it would not. The configuration is complete. */
  warmUpProblem(config: ModelConfig, modelDirectory: string): Promise<string | null>
  close(): void
}
