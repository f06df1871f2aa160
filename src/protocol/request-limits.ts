import { ServerError } from '../base/server-error.ts'

/** How much one inference request may hold. Every refusal names the limit and the flag that moves it. */
export type InferLimits = {
  /** `--max-request-tensors`: inputs, and as many outputs. */
  readonly maxTensors: number
  /** `--max-tensor-rank` */
  readonly maxRank: number
  /** `--max-request-parameters` */
  readonly maxParameters: number
  /** `--max-request-id-bytes` */
  readonly maxIdBytes: number
}

/** The limits of a request that may hold JSON. */
export type RequestLimits = InferLimits & {
  /** `--http-max-input-size`: of the JSON text, of a tensor read from JSON, of a raw request. */
  readonly maxInputBytes: number
}

const refusal = (what: string, limit: number, flag: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `${what}, the maximum is ${limit}. Use ${flag} to increase the limit.`)

export const tooManyTensors = (kind: 'inputs' | 'outputs', limit: number): ServerError =>
  refusal(`the request has too many ${kind}`, limit, '--max-request-tensors')
export const tooManyDimensions = (limit: number): ServerError =>
  refusal("the 'shape' of an input has too many dimensions", limit, '--max-tensor-rank')
export const tooManyParameters = (limit: number): ServerError =>
  refusal('the request has too many parameters', limit, '--max-request-parameters')
export const idTooLong = (bytes: number, limit: number): ServerError =>
  refusal(`the request id has ${bytes} bytes`, limit, '--max-request-id-bytes')
