import { visibleModels } from '../../access/require-right.ts'
import type { Clock } from '../../base/clock.ts'
import { runInSlices } from '../../base/run-in-slices.ts'
import type { Engine } from '../../engine/engine.ts'
import { encodeStatistics } from '../../protocol/statistics-json.ts'
import { jsonResponse, respondWithError } from '../../ports/http/error-response.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { HttpRequest } from '../../transport/http1/http-message.ts'

/** The statistics extension: the statistics of the versions that serve. */
export class StatisticsEndpoints {
  readonly #engine: Engine
  readonly #clock: Clock

  constructor({ engine, clock }: { readonly engine: Engine; readonly clock: Clock }) {
    this.#engine = engine
    this.#clock = clock
  }

  readonly all: RouteHandler = (request, _name, _version, caller) =>
    this.#answer(request, '', '', visibleModels(caller, 'statistics'))

  readonly ofModel = (request: HttpRequest, name: string, version: string): void =>
    this.#answer(request, name, version, null)

  #answer(request: HttpRequest, name: string, version: string, isVisible: ((model: string) => boolean) | null): void {
    try {
      const all = this.#engine.statistics(name, version)
      const steps = encodeStatistics(isVisible === null ? all : all.filter((one) => isVisible(one.name)))
      runInSlices(
        this.#clock,
        steps,
        () => true,
        (_, text) => request.respond(jsonResponse(text as Buffer)),
      )
    } catch (reason) {
      respondWithError(request, reason)
    }
  }
}
