import type { HttpOptions } from '../../ports/http/http-options.ts'
import { large, post, type Route } from '../../ports/http/route.ts'
import { GenerateEndpoints, type GenerateParts } from './generate-endpoints.ts'

const modelVersion = '/v2/models/{model}[/versions/{version}]'

export function generateRoutes(parts: GenerateParts, options: HttpOptions): Route[] {
  const endpoints = new GenerateEndpoints(parts, options)
  return [
    large(post(`${modelVersion}/generate`, 'inference', endpoints.generate)),
    large(post(`${modelVersion}/generate_stream`, 'inference', endpoints.generateStream)),
  ]
}
