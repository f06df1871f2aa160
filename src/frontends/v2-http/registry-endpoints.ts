import { visibleModels } from '../../access/require-right.ts'
import type { Engine } from '../../engine/engine.ts'
import {
  encodeRegisteredModel,
  encodeRegisteredVersion,
  encodeRegistryHistory,
  encodeRegistryPage,
} from '../../protocol/registry-json.ts'
import { readHistoryLimit, readRegistryQuery } from '../../protocol/registry-query.ts'
import { jsonResponse, respondWithError } from '../../ports/http/error-response.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { HttpRequest } from '../../transport/http1/http-message.ts'

/** The endpoints of the registry (registry files, content, history of models). Triton does not have them. */
export class RegistryEndpoints {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  readonly search: RouteHandler = (request, _name, _version, caller) =>
    answer(request, async () => {
      const isVisible = visibleModels(caller, 'model-repository')
      return encodeRegistryPage(await this.#engine.registry.search(readRegistryQuery(request.target), isVisible))
    })

  readonly ofModel = (request: HttpRequest, name: string, version: string): void =>
    answer(request, async () => {
      if (version === '') return encodeRegisteredModel(await this.#engine.registry.describe(name))
      const found = await this.#engine.registry.describeVersion(name, version)
      return encodeRegisteredVersion(found.model, found.version)
    })

  readonly history = (request: HttpRequest, name: string): void =>
    answer(request, async () => {
      const limit = readHistoryLimit(request.target)
      return encodeRegistryHistory(name, await this.#engine.registry.history(name, limit))
    })
}

function answer(request: HttpRequest, make: () => Promise<Buffer>): void {
  // `make` may throw before its first await; Promise.try turns that into a rejection.
  Promise.try(make).then(
    (body) => request.respond(jsonResponse(body)),
    (reason: unknown) => respondWithError(request, reason),
  )
}
