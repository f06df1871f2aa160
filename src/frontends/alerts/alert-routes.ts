// POST /v2/alerts: Alertmanager's webhook. Triton has no such path.

import type { AlertDesk } from '../../alerts/alert-desk.ts'
import { ServerError } from '../../base/server-error.ts'
import { answer, bodyOf } from '../../ports/http/json-answers.ts'
import { forAll, post, type Route } from '../../ports/http/route.ts'

/** Null where `--actions` names no file. */
export const alertRoutes = (desk: AlertDesk | null): Route[] =>
  [
    post('/v2/alerts', 'alerts', (request, _name, _version, caller) =>
      answer(request, 200, async () => {
        if (desk === null)
          throw ServerError.withoutStack('UNSUPPORTED', 'this server acts on no alerts: start it with --actions FILE')
        return { acts: await desk.receive(bodyOf(request), caller.principal) }
      }),
    ),
  ].map(forAll)
