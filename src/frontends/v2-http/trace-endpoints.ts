import type { Engine } from '../../engine/engine.ts'
import { encodeTraceSettings, readTraceChanges } from '../../protocol/trace-settings-json.ts'
import { errorResponse, jsonResponse } from '../../ports/http/error-response.ts'
import { jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'

/** The trace extension: which requests are traced, for all models or for one. */
export class TraceEndpoints {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  readonly handle = (request: HttpRequest, modelName: string): void => {
    try {
      const control = this.#engine.traceControl
      this.#engine.requireTraceable(modelName)
      if (request.method === 'POST') control.update(modelName, readTraceChanges(request.body))
      request.respond(jsonResponse(encodeTraceSettings(control, modelName)))
    } catch (reason) {
      request.respond(errorResponse(this.#engine.wording.tell(reason), jsonType))
    }
  }
}
