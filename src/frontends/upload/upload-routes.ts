// POST /predict and POST /v2/models/{model}/predict: a picture, a sound or a text in, the best classes with their labels out. The code
// is read with the first upload.

import { large, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { UploadEndpoint, UploadParts } from './upload-endpoint.ts'

export function uploadRoutes(parts: UploadParts, options: HttpOptions): Route[] {
  let opened: Promise<UploadEndpoint> | null = null
  const handle: RouteHandler = (http, model, version, caller) => {
    opened ??= import('./upload-endpoint.ts').then(({ UploadEndpoint: Endpoint }) => new Endpoint(parts, options))
    void opened.then((endpoint) => endpoint.handle(http, model, version, caller))
  }
  return [
    large(post('/predict', 'inference', handle)),
    large(post('/v2/models/{model}[/versions/{version}]/predict', 'inference', handle)),
  ]
}
