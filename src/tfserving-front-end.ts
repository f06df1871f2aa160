// TensorFlow Serving's protocol as the HTTP and gRPC ports take it in. Its code is read only where it is allowed.

import type { ServingModels } from './frontends/tfserving/serving-models.ts'
import { tfservingGrpc } from './frontends/tfserving/tfserving-grpc.ts'
import { tfservingOwnRoutes, tfservingRoutes } from './frontends/tfserving/tfserving-routes.ts'
import type { GrpcOptions } from './ports/grpc/grpc-options.ts'
import type { GrpcFrontEnd } from './ports/grpc/grpc-method.ts'
import type { Route } from './ports/http/route.ts'

type RestArguments = Parameters<typeof tfservingRoutes>
type GrpcArguments = Parameters<typeof tfservingGrpc>

export type TfservingFrontEnd = {
  /** What the gRPC port has beside its own flags. */
  readonly grpcOptions: Partial<Pick<GrpcOptions, 'tls'>>
  routes(parts: Omit<RestArguments[0], 'serving' | 'timeoutMs'>, options: RestArguments[1]): Route[]
  /** The same for the port of its own, and what only that port has. */
  ownRoutes(routes: readonly Route[]): Route[]
  grpc(parts: GrpcArguments[0], options: GrpcArguments[1]): GrpcFrontEnd
}

export const tfservingFrontEnd = (
  serving: ServingModels,
  timeoutMs = 0,
  grpcOptions: TfservingFrontEnd['grpcOptions'] = {},
): TfservingFrontEnd => ({
  grpcOptions,
  routes: (parts, options) => tfservingRoutes({ ...parts, serving, timeoutMs }, options),
  ownRoutes: tfservingOwnRoutes,
  grpc: (parts, options) => tfservingGrpc(parts, options, serving),
})
