// Why a scheduler ends a request that never ran, in Triton's words. Refusals are many when they come: none has a stack trace.

import { ServerError } from '../base/server-error.ts'
import type { InferenceRequest } from '../model/inference-request.ts'

type Prefixed = Pick<InferenceRequest, 'errorPrefix'>

const unavailable = (message: string): ServerError => ServerError.withoutStack('UNAVAILABLE', message)

export const queueFullError = ({ errorPrefix }: Prefixed): ServerError =>
  unavailable(`${errorPrefix}Exceeds maximum queue size`)

export const timeoutError = (): ServerError => unavailable('Request timeout expired')

/** It came after `drain`, or waits still at `close`. */
export const stoppedError = ({ errorPrefix }: Prefixed): ServerError =>
  unavailable(`${errorPrefix}Server is stopping, scheduler for model has stopped accepting new inference requests`)
