// `galatea/client/http`, and `galatea/client` in browsers: everything that needs web globals only.

export { createHttpClient, HttpClient, type GenerateFields, type HttpClientOptions } from './http/http-client.ts'
export type { FetchFunction } from './http/http-transport.ts'
export { ClientSequence, type SequenceInferOptions, type SequenceOptions } from './client-sequence.ts'
export { InferenceError, type InferenceErrorCode } from './inference-error.ts'
export { InferResult } from './infer-result.ts'
export { OutputTensor, type ClassScore, type ValuesOfType } from './output-tensor.ts'
export type { TensorData, TypedArray } from './tensor-data.ts'
export type {
  CallOptions,
  Compression,
  InferOptions,
  Inputs,
  InputTensor,
  NamedInput,
  ParameterValue,
  RequestedOutput,
  SequenceStep,
  SharedMemoryRange,
} from './infer-request.ts'
export type * from './inference-client.ts'
export type * from './model-registry.ts'
export type { DataType } from '../tensor/data-type.ts'
export type { Shape } from '../tensor/shape.ts'
