import { ServerError } from '../../base/server-error.ts'
import type { ErrorWording } from '../../model/error-wording.ts'
import type { RefusalCounts } from '../../model/refusal-counts.ts'
import { jsonType } from '../../transport/http1/http-message.ts'
import { errorResponse } from './error-response.ts'
import type { PortRequest } from './port-request.ts'
import type { RouteHandler } from './route.ts'

/** How a protocol answers with an error. */
type Tell = (http: PortRequest, error: ServerError) => void

/**
 * The handler, whose errors are told in the form of its protocol, whether they come at once or later. What is thrown at once and is
 * no ServerError is a fault of ours, which the port logs and tells.
 */
export const telling =
  (tell: Tell, handle: (...request: Parameters<RouteHandler>) => void | Promise<void>): RouteHandler =>
  (http, name, version, caller) => {
    try {
      const done = handle(http, name, version, caller)
      if (done instanceof Promise) {
        done.catch((reason: unknown) => {
          if (!(reason instanceof ServerError)) http.noteFault?.(reason)
          tell(http, ServerError.from(reason))
        })
      }
    } catch (reason) {
      if (!(reason instanceof ServerError)) throw reason
      tell(http, reason)
    }
  }

/** Counts the error among the refusals: its request does not reach the Engine. */
export const refuseIn =
  (
    { wording, refusals }: { readonly wording: ErrorWording; readonly refusals: RefusalCounts },
    contentType = jsonType,
  ): Tell =>
  (http, reason) => {
    const error = wording.tell(reason)
    refusals.count(error)
    http.respond(errorResponse(error, contentType))
  }
