import type { Caller } from '../../access/caller.ts'
import { changeOrigin, traceIdOf, type ChangeOrigin } from '../../model/change-origin.ts'
import { headerOf, type HttpRequest } from '../../transport/http1/http-message.ts'

/** Who changes a model. Call this before any await: a client that has disconnected has no address any more. */
export const httpChangeOrigin = ({ headers, remoteAddress }: HttpRequest, { principal }: Caller): ChangeOrigin =>
  changeOrigin('http', {
    address: remoteAddress,
    key: principal,
    requestId: headerOf(headers, 'x-request-id') ?? '',
    traceId: traceIdOf(headerOf(headers, 'traceparent')),
  })
