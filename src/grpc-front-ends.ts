// The gRPC port put together: the methods of every front end that speaks gRPC, and the port that serves them.

import type { AccessService } from './access/access-service.ts'
import type { Admission } from './access/admission.ts'
import { bothAdmissions } from './access/both-admissions.ts'
import { sharedKeyAdmission } from './access/shared-key-admission.ts'
import type { Engine } from './engine/engine.ts'
import { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import { orcaService } from './frontends/orca/orca-service.ts'
import { v2Grpc, type V2GrpcParts } from './frontends/v2-grpc/v2-grpc.ts'
import type { GrpcFrontEnd } from './ports/grpc/grpc-method.ts'
import type { GrpcOptions } from './ports/grpc/grpc-options.ts'
import { GrpcPort, type GrpcPortDependencies } from './ports/grpc/grpc-port.ts'
import { reflectionService } from './ports/grpc/reflection-service.ts'
import type { TfservingFrontEnd } from './tfserving-front-end.ts'

export type GrpcDependencies = Omit<GrpcPortDependencies, 'admission'> &
  Omit<V2GrpcParts, 'sharedMemory'> & {
    readonly engine: Engine
    /** In place of the one that the options name. */
    readonly admission?: Admission
    /** `--access-config`; null or left out: everybody may do everything that the options do not restrict. */
    readonly access?: AccessService | null
    /** The regions that clients registered, by whatever protocol; without it they may register none. */
    readonly sharedMemory?: SharedMemoryRegistry
    /** Without it TensorFlow Serving's protocol is not served. */
    readonly tfserving?: TfservingFrontEnd
  }

/** Throws ServerError when an option makes no sense; opens no port before `listen`. */
export function createGrpcPort(dependencies: GrpcDependencies, options: GrpcOptions): GrpcPort {
  const sharedMemory = dependencies.sharedMemory ?? new SharedMemoryRegistry({ isAllowed: false })
  return createFurtherGrpcPort(dependencies, options, grpcFrontEnds({ ...dependencies, sharedMemory }, options))
}

/** A gRPC port of a protocol that has one of its own. Throws ServerError when an option makes no sense. */
export function createFurtherGrpcPort(
  dependencies: Omit<GrpcPortDependencies, 'admission'> & Pick<GrpcDependencies, 'admission' | 'access'>,
  options: GrpcOptions,
  frontEnds: readonly GrpcFrontEnd[],
): GrpcPort {
  const restricted = sharedKeyAdmission('grpc', options.restrictedProtocols)
  const admission = dependencies.admission ?? bothAdmissions(restricted, dependencies.access?.admission ?? null)
  return new GrpcPort({ ...dependencies, admission }, options, frontEnds)
}

/** Every method of the gRPC port. */
export function grpcFrontEnds(
  parts: V2GrpcParts & { readonly tfserving?: TfservingFrontEnd },
  options: GrpcOptions,
): GrpcFrontEnd[] {
  const frontEnds = [
    v2Grpc(parts, options),
    ...(parts.tfserving === undefined ? [] : [parts.tfserving.grpc(parts, options)]),
    ...(parts.load === null || parts.load === undefined ? [] : [orcaService(parts.load, parts.clock, parts.log)]),
  ]
  return [...frontEnds, reflectionService(frontEnds)]
}
