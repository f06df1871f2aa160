import type { ModelConfig } from '../../config/model-config.ts'
import type { ChangeOrigin } from '../../model/change-origin.ts'
import type { UploadedModel } from '../../repository/uploaded-models.ts'

/** How one model is to be loaded, and for whom. */
export type LoadOptions = {
  /** Even when its files have not changed. */
  readonly isForced: boolean
  /** A lazy model that does not serve is only made known. */
  readonly mayStayAsleep?: boolean
  /** Asked when the load begins: whether anybody still wants the model. */
  isWanted?(): boolean
  /** Who asked for it. */
  readonly origin?: ChangeOrigin
  /** The configuration or the files that came with the load request, in place of those of the repository. */
  readonly config?: ModelConfig | null
  readonly upload?: UploadedModel | null
}
