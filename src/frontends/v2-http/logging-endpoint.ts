import type { LogControl } from '../../base/log-control.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ErrorWording } from '../../model/error-wording.ts'
import { applyLogSettings, encodeLogSettings } from '../../protocol/log-settings-json.ts'
import { errorResponse, jsonResponse } from '../../ports/http/error-response.ts'
import { jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'
import type { RouteHandler } from '../../ports/http/route.ts'

/** GET and POST /v2/logging. `control` is null when the log belongs to the embedding program. */
export const loggingEndpoint =
  (control: LogControl | null, wording: ErrorWording): RouteHandler =>
  (request: HttpRequest): void => {
    try {
      if (control === null) throw ServerError.withoutStack('UNSUPPORTED', 'this server has no log settings')
      if (request.method === 'POST') applyLogSettings(request.body, control)
      request.respond(jsonResponse(encodeLogSettings(control)))
    } catch (reason) {
      request.respond(errorResponse(wording.tell(reason), jsonType))
    }
  }
