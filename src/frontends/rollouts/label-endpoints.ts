// Labels: names for versions of a model, as `champion`. `stable` and `candidate` are kept by rollouts.

import { percentDecoded } from '../../base/percent-decoded.ts'
import { ServerError } from '../../base/server-error.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { ReleaseControl } from '../../releases/release-control.ts'
import { answer, bodyOf, fail } from '../../ports/http/json-answers.ts'

export class LabelEndpoints {
  readonly #control: ReleaseControl
  readonly #infer: RouteHandler

  constructor(control: ReleaseControl, infer: RouteHandler) {
    this.#control = control
    this.#infer = infer
  }

  readonly labels: RouteHandler = (request, model) =>
    answer(request, 200, async () => {
      if (request.method === 'POST') await this.#control.labels.set(model, bodyOf(request))
      return this.#control.labels.of(model)
    })

  readonly infer: RouteHandler = (request, model, _, caller) => {
    let version: string
    try {
      version = this.#control.labels.version(model, labelIn(request.target))
    } catch (reason) {
      fail(request, reason)
      return
    }
    this.#infer(request, model, version, caller)
  }
}

/** The segment after `/labels/`. */
function labelIn(target: string): string {
  const [, label = ''] = /\/labels\/([^/?]+)\/infer(?:\?|$)/.exec(target) ?? []
  const decoded = percentDecoded(label)
  if (decoded !== null) return decoded
  throw ServerError.withoutStack('INVALID_ARG', 'the label in the path is not percent-encoded text')
}
