import { ServerError } from './server-error.ts'

const grpcPort = '4317'
/** `localhost:4318/v1/traces`. A name without a port is more likely a mistake. */
const withoutScheme = /^(?:[\w.-]+|\[[\da-f:]+\]):\d+(?:\/|$)/i

/** Throws INVALID_ARG for what is no address of a collector. */
export function parseCollectorUrl(text: string): { readonly isGrpc: boolean; readonly url: URL } {
  const isGrpcScheme = /^grpcs?:\/\//.test(text)
  const httpText = isGrpcScheme ? text.replace(/^grpc/, 'http') : withoutScheme.test(text) ? `http://${text}` : text
  const url = URL.canParse(httpText) ? new URL(httpText) : null
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.hostname === '') {
    throw new ServerError(
      'INVALID_ARG',
      `'${text}' is no address of a trace collector; expected one like http://localhost:4318/v1/traces or ` +
        'grpc://localhost:4317',
    )
  }
  return { isGrpc: isGrpcScheme || (url.port === grpcPort && url.pathname === '/'), url }
}
