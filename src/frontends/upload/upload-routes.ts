// POST /predict and POST /v2/models/{model}/predict: a picture, a sound or a text in, the best classes with their labels out. The code
// is read with the first upload.

import { respondWithError } from '../../ports/http/error-response.ts'
import { handlersOnDemand } from '../../ports/http/handlers-on-demand.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import { post, upload, type Route, type RouteHandler } from '../../ports/http/route.ts'
import type { UploadEndpoint, UploadParts } from './upload-endpoint.ts'

export class LazyUploads {
  readonly handle: RouteHandler
  #opened: UploadEndpoint | null = null

  constructor(parts: UploadParts, options: HttpOptions) {
    const open = async (): Promise<UploadEndpoint> => {
      const { UploadEndpoint: Endpoint } = await import('./upload-endpoint.ts')
      return (this.#opened ??= new Endpoint(parts, options))
    }
    const via = handlersOnDemand(open, (request, reason) => respondWithError(request, reason))
    this.handle = via(
      (endpoint) =>
        (...call) =>
          endpoint.handle(...call),
    )
  }

  close(): void {
    this.#opened?.close()
  }
}

export function uploadRoutes(uploads: LazyUploads): Route[] {
  const handle: RouteHandler = (...call) => uploads.handle(...call)
  return [
    upload(post('/predict', 'inference', handle)),
    upload(post('/v2/models/{model}[/versions/{version}]/predict', 'inference', handle)),
  ]
}
