// The seam at which the version of a request is chosen.

import type { CallFacts } from '../access/call-facts.ts'
import type { Caller } from '../access/caller.ts'
import type { Parameters } from './inference-request.ts'
import type { ModelVersion } from './model-version.ts'

/** What the head of a request says: all of it but its tensors. */
export type RequestHead = {
  readonly id: string
  readonly parameters: Parameters
  /** 0n or '' when the request belongs to no sequence. */
  readonly correlationId: bigint | string
}

/** What a Chooser may ask about a request. */
export interface RequestFacts extends CallFacts {
  readonly caller: Caller
  /** The head of the body. It is read when it is asked for, and once. Throws ServerError where it cannot be read. */
  head(): RequestHead
}

/**
 * Chooses the version that serves a request. `version` is as the client wrote it, '' for none; `usual` is the version
 * that serves without a Chooser. A Chooser is called once per request, before the tensors of the request are read. It
 * must be quick, and it returns `usual` or another version of the same model.
 */
export type Chooser = (facts: RequestFacts, version: string, usual: ModelVersion) => ModelVersion
