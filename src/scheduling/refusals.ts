// Triton's error texts for requests that never ran. Refusals come in great numbers, so they have no stack trace.

import { ServerError } from '../base/server-error.ts'
import type { InferenceRequest } from '../model/inference-request.ts'

type Prefixed = Pick<InferenceRequest, 'errorPrefix'>

const unavailable = (message: string): ServerError => ServerError.withoutStack('UNAVAILABLE', message)

export const queueFullError = ({ errorPrefix }: Prefixed): ServerError =>
  unavailable(`${errorPrefix}Exceeds maximum queue size`)

export const timeoutError = (): ServerError => unavailable('Request timeout expired')

/** For a request that came after `drain`, or still waits at `close`. */
export const stoppedError = ({ errorPrefix }: Prefixed): ServerError =>
  unavailable(`${errorPrefix}Server is stopping, scheduler for model has stopped accepting new inference requests`)
