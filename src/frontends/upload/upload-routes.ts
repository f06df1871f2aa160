// POST /predict and POST /v2/models/{model}/predict: a picture, a sound or a text in, the best classes with their labels out. The code
// is read with the first upload.

import { large, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { UploadEndpoint, UploadParts } from './upload-endpoint.ts'

export class LazyUploads {
  readonly #open: () => Promise<UploadEndpoint>
  #opened: Promise<UploadEndpoint> | null = null

  constructor(parts: UploadParts, options: HttpOptions) {
    this.#open = async () => new (await import('./upload-endpoint.ts')).UploadEndpoint(parts, options)
  }

  handle(...call: Parameters<RouteHandler>): void {
    this.#opened ??= this.#open()
    void this.#opened.then((endpoint) => endpoint.handle(...call))
  }

  close(): void {
    void this.#opened?.then((endpoint) => endpoint.close())
  }
}

export function uploadRoutes(uploads: LazyUploads): Route[] {
  const handle: RouteHandler = (...call) => uploads.handle(...call)
  return [
    large(post('/predict', 'inference', handle)),
    large(post('/v2/models/{model}[/versions/{version}]/predict', 'inference', handle)),
  ]
}
