// The interfaces for the choice of the version that serves a request.

import type { InferenceRequest, RequestWatch } from './inference-request.ts'
import type { ModelVersion } from './model-version.ts'
import type { RequestOrigin } from './request-origin.ts'

/** Follows a request that a Chooser has assigned. */
export interface ChoiceWatch extends RequestWatch {
  /** The model that the client asked for. The version may be one of another model. */
  readonly modelName: string
  /** The version that serves the request. Another one, when the request runs again. */
  readonly version: ModelVersion
  /** The arm of the request. */
  readonly armName: string
  /** The request does not count for the judgement: something was done to it. */
  exclude(): void
  /** What answers say about themselves, as names and values of headers; null: nothing. HOT. */
  readonly marks: readonly string[] | null
  /** The Engine gets the request next. `areInputsKept`: the bytes of its inputs stay as they are after its end. HOT. */
  begun(request: InferenceRequest, areInputsKept: boolean): void
}

/** The facts about a request that a Chooser may ask for. */
export interface RequestFacts extends RequestOrigin {
  /** A Chooser that wants to follow the request sets this; null: nobody follows it. */
  watch: ChoiceWatch | null
}

/** The versions of one model that a Chooser chooses from. */
export interface VersionChoice {
  /** The name of the model. */
  readonly name: string
  /** The numbers of the versions that serve, lowest first. */
  readonly readyVersions: readonly string[]
  /**
   * The version with this number; '' is the highest version that serves. Without a Chooser this is the whole rule.
   * Throws, with Triton's texts, when there is no such version or the version does not serve.
   */
  find(version: string): ModelVersion
  /** The version that the sequence began on, also where that one was replaced and only ends its sequences; null: no version has it. */
  versionWithSequence(id: bigint | string): ModelVersion | null
}

/**
 * Chooses the version that serves a request. `version` is the client's text, '' for none. The Engine calls a Chooser
 * once per request, before the tensors of the request are read. A Chooser must be quick. It returns a version of this model,
 * or of another one with the same inputs and outputs; then it must set `watch`. When a Chooser throws, only this request fails.
 */
export type Chooser = (facts: RequestFacts, version: string, model: VersionChoice) => ModelVersion
