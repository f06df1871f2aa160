/// <reference types="node" preserve="true" />
// `galatea/client` in Node: HTTP, gRPC and shared memory.

import { HttpClient, type HttpClientOptions } from './http/http-client.ts'
import { createTlsFetch } from './node/tls-fetch.ts'
import type { TlsOptions } from './node/tls-settings.ts'

export * from './web.ts'
export { createGrpcClient, GrpcClient, type GrpcClientOptions } from './grpc/grpc-client.ts'
export { InferStream, type StreamAnswer, type StreamInferOptions } from './grpc/infer-stream.ts'
export { createTlsFetch } from './node/tls-fetch.ts'
export type { TlsOptions } from './node/tls-settings.ts'
export {
  createSharedMemoryRegion,
  SharedMemoryRegion,
  type PlacedInput,
  type SharedMemoryRegionOptions,
} from './node/shared-memory-region.ts'

/** As in browsers, and with certificates of one's own. */
export function createHttpClient(options: HttpClientOptions & { readonly tls?: TlsOptions }): HttpClient {
  const { tls, ...rest } = options
  return new HttpClient(tls === undefined ? rest : { fetch: createTlsFetch(tls), ...rest })
}
