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

const overloadText = (modelName: string, retryAfterSecs: number): string =>
  `model '${modelName}' is overloaded: more requests come than it can answer in time. Try again after ` +
  `${retryAfterSecs} s, or send fewer requests at a time`

export const overloadError = (errorPrefix: string, modelName: string, retryAfterSecs: number): ServerError =>
  ServerError.withoutStack('UNAVAILABLE', errorPrefix + overloadText(modelName, retryAfterSecs), retryAfterSecs)

/** For requests that were not read, so that their ids are not known. */
export const unreadOverloadError = (modelName: string, retryAfterSecs: number): ServerError =>
  ServerError.shared('UNAVAILABLE', overloadText(modelName, retryAfterSecs), retryAfterSecs)

/** For requests that were not read. */
export const unreadQueueFullError = (modelName: string): ServerError =>
  ServerError.shared(
    'UNAVAILABLE',
    `Exceeds maximum queue size of model '${modelName}'. Try again after 1 s, or send fewer requests at a time`,
    1,
  )

export const deadlineError = (
  { errorPrefix, modelName }: Prefixed & Pick<InferenceRequest, 'modelName'>,
  waitNs: number,
  retryAfterSecs: number,
): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `${errorPrefix}model '${modelName}' cannot begin this request before its time-out or deadline: about ${Math.ceil(waitNs / 1e6)} ms of ` +
      `requests wait before it. Try again after ${retryAfterSecs} s, or allow more time`,
    retryAfterSecs,
  )

export const fairShareError = (
  { errorPrefix, modelName, caller }: Prefixed & Pick<InferenceRequest, 'modelName' | 'caller'>,
  retryAfterSecs: number,
): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `${errorPrefix}the queue of model '${modelName}' is full, and tenant '${caller.tenant}' has more than its share in it. ` +
      `Try again after ${retryAfterSecs} s, or send fewer requests at a time`,
    retryAfterSecs,
  )
