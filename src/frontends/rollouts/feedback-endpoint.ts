import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { FeedbackDesk } from '../../rollouts/feedback-desk.ts'
import { answer, bodyOf } from '../../ports/http/json-answers.ts'

/** POST …/feedback: labels and scores of answers. An id that nobody remembers is told and counted, and is no error. */
export const feedbackEndpoint =
  (engine: Engine, desk: FeedbackDesk): RouteHandler =>
  (request, model) =>
    answer(request, 200, () => {
      engine.findVersion(model, '')
      const receipt = desk.take(model, bodyOf(request))
      if (typeof receipt === 'string') throw ServerError.withoutStack('INVALID_ARG', receipt)
      return receipt
    })
