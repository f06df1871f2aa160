import type { ModelConfig } from '../../config/model-config.ts'
import type { UploadedFiles } from '../../repository/uploaded-models.ts'

/** What a load request may bring along. */
export type LoadOverride = {
  readonly config: ModelConfig
  /** Files that stand in for the repository's; none of those is then looked at. */
  readonly files: UploadedFiles
}
