import { ServerError } from '../base/server-error.ts'
import type { InferenceRequest } from './inference-request.ts'

/** For a request whose inputs lie on a GPU that its model has left meanwhile: an Instance elsewhere would read something else. */
export const leftGpu = ({ inputDevice }: Pick<InferenceRequest, 'inputDevice'>): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `inputs of the request lie on GPU ${inputDevice}, and the model left that GPU while the request waited: send it again`,
  )
