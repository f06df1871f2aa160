import { anonymous, type Caller } from '../access/caller.ts'
import type { CallFacts } from '../access/call-facts.ts'
import type { Parameters } from './parameters.ts'

/** The head of a request: everything but the tensors. */
export type RequestHead = {
  readonly id: string
  readonly parameters: Parameters
  /** 0n or '' when the request belongs to no sequence. */
  readonly correlationId: bigint | string
  readonly isSequenceStart: boolean
}

/** The call of a client that a request comes from. Requests that models send for it have the same origin. */
export interface RequestOrigin extends CallFacts {
  readonly caller: Caller
  /** The head of the body. The first call reads it, later calls return the same. Throws ServerError for a bad body. */
  head(): RequestHead
}

/** Of a request that a model sends by itself. */
export const noOrigin: RequestOrigin = {
  protocol: 'embedded',
  api: 'inference',
  path: '',
  peer: '',
  caller: anonymous,
  header: () => null,
  head: () => ({ id: '', parameters: new Map(), correlationId: 0n, isSequenceStart: false }),
}
