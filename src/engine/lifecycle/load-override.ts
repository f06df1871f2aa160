import type { ModelConfig } from '../../config/model-config.ts'
import type { UploadedFiles } from '../../repository/uploaded-models.ts'

/** What a load request may bring along. */
export type LoadOverride = {
  readonly config: ModelConfig
  /** Files that replace those of the repository; with any, no file of the repository is read. */
  readonly files: UploadedFiles
}
