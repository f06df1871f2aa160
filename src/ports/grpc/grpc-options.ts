import type { RestrictedApis } from '../../access/shared-key-admission.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferLimits } from '../../protocol/request-limits.ts'
import type { GrpcTransportOptions } from '../../transport/grpc/grpc-transport-options.ts'

/** The flags `--grpc-…`: the options of the transport and of the port. */
export type GrpcOptions = GrpcTransportOptions & {
  /** `--grpc-header-forward-pattern`; '' forwards none. */
  readonly headerForwardPattern: string
  /** `--grpc-restricted-protocol` */
  readonly restrictedProtocols: readonly RestrictedApis[]
  readonly requestLimits: InferLimits
  /** `--tfserving-tensor-content`: TensorFlow Serving's services answer with raw bytes in place of typed lists. */
  readonly answersTensorContent: boolean
}

const positive = [
  'maxMessageBytes',
  'maxBacklogBytes',
  'bodyIdleTimeoutMs',
  'writeIdleTimeoutMs',
  'idleTimeoutMs',
] as const

export function validateGrpcOptions(options: GrpcOptions): void {
  if (!Number.isInteger(options.port) || options.port < 0 || options.port > 65535) {
    throw new ServerError('INVALID_ARG', `gRPC port must be between 0 and 65535, got ${options.port}`)
  }
  for (const name of positive) {
    if (options[name] > 0) continue
    throw new ServerError('INVALID_ARG', `gRPC option ${name} must be greater than 0, got ${options[name]}`)
  }
  const { tls } = options
  if (tls === null) return
  if (tls.certificate === '' || tls.key === '') {
    throw new ServerError('INVALID_ARG', '--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key')
  }
  if (tls.isMutual && tls.root === '') {
    throw new ServerError('INVALID_ARG', '--grpc-use-ssl-mutual needs --grpc-root-cert')
  }
}
