// The seam at which the version of a request is chosen.

import type { CallFacts } from '../access/call-facts.ts'
import type { Caller } from '../access/caller.ts'
import type { Parameters } from './parameters.ts'
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

/** The versions of one model that a Chooser chooses from. */
export interface VersionChoice {
  /** Of the model. */
  readonly name: string
  /** The numbers of the versions that serve, lowest first. */
  readonly readyVersions: readonly string[]
  /**
   * The version of that number; '' is the highest one that serves. A model without a Chooser serves a request by this
   * rule alone. Throws, with Triton's texts, where there is no such version or the version does not serve.
   */
  find(version: string): ModelVersion
}

/**
 * Chooses the version that serves a request. `version` is as the client wrote it, '' for none. The Engine calls a
 * Chooser once per request, before the tensors of the request are read. A Chooser must be quick, and it returns a
 * version of this model. When it throws, this one request fails.
 */
export type Chooser = (facts: RequestFacts, version: string, model: VersionChoice) => ModelVersion
