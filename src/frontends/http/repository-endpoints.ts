import { messageOf, ServerError } from '../../base/server-error.ts'
import type { Log } from '../../base/log.ts'
import type { Engine, LoadOverride } from '../../engine/engine.ts'
import { parseModelConfigJson } from '../../protocol/model-config-json.ts'
import { encodeIndex, readIndexRequest, readLoadRequest } from '../../protocol/repository-request.ts'
import { emptyResponse, errorResponse, jsonResponse } from './error-response.ts'
import { jsonType, type HttpRequest, type HttpResponse } from './http-message.ts'

/** The model repository extension: what there is, and loading and unloading it. */
export class RepositoryEndpoints {
  readonly #engine: Engine
  readonly #log: Log

  constructor(dependencies: { readonly engine: Engine; readonly log: Log }) {
    this.#engine = dependencies.engine
    this.#log = dependencies.log.from('repository-endpoints.ts')
  }

  readonly index = (request: HttpRequest): void =>
    answer(request, async () => {
      const isReadyOnly = readIndexRequest(request.body)
      return jsonResponse(encodeIndex(await this.#engine.repositoryIndex(isReadyOnly)))
    })

  readonly load = (request: HttpRequest, name: string): void =>
    answer(request, async () => {
      this.#engine.requireExplicitControl()
      await this.#engine.load(name, this.#readOverride(name, request.body))
      return emptyResponse(200)
    })

  /** The body says whether dependents go too; nothing depends on another model yet, and Triton does not validate it. */
  readonly unload = (request: HttpRequest, name: string): void =>
    answer(request, async () => {
      this.#engine.requireExplicitControl()
      await this.#engine.unload(name)
      return emptyResponse(200)
    })

  readonly refuseNamedRepository = (request: HttpRequest): void =>
    answer(request, () => {
      throw ServerError.withoutStack('UNSUPPORTED', "'repository_name' specification is not supported")
    })

  #readOverride(name: string, body: Uint8Array): LoadOverride | null {
    const { config, files } = readLoadRequest(body)
    if (config === null && files.size === 0) return null
    try {
      if (config === null) {
        throw new ServerError('INVALID_ARG', "load parameter 'config' must be specified for model file override")
      }
      return { config: parseModelConfigJson(config), files }
    } catch (reason) {
      this.#log.error(`Poll failed for model directory '${name}': ${messageOf(reason)}`)
      throw new ServerError('INTERNAL', `failed to load '${name}', failed to poll from model repository`)
    }
  }
}

function answer(request: HttpRequest, make: () => Promise<HttpResponse>): void {
  // `make` may throw before its first await; both ways end here.
  Promise.try(make).then(
    (response) => request.respond(response),
    (reason: unknown) => request.respond(errorResponse(ServerError.from(reason), jsonType)),
  )
}
