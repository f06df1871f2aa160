// GET and POST /v2/faults: faults that are in force, and new ones.

import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import { forAll, getOrPost, post, type Route } from '../../ports/http/route.ts'
import type { FaultBook } from '../../rollouts/fault-book.ts'
import { answer, bodyOf } from './rollout-answers.ts'

export type FaultDesk = {
  readonly book: FaultBook
  /** Puts on record who did what. */
  readonly audit: (caller: Caller, model: string, what: string) => void
}

/** Null: the server was started without `--allow-fault-injection`. */
export function faultRoutes(desk: FaultDesk | null): Route[] {
  const required = (): FaultDesk => {
    if (desk !== null) return desk
    throw ServerError.withoutStack(
      'UNSUPPORTED',
      'this server injects no faults: start it with --allow-fault-injection',
    )
  }
  return [
    getOrPost('/v2/faults', 'rollouts', (request, _name, _version, caller) =>
      answer(request, request.method === 'POST' ? 201 : 200, () => {
        if (request.method !== 'POST') return desk?.book.list() ?? []
        const { book, audit } = required()
        const fault = book.add(bodyOf(request), caller.principal)
        audit(caller, fault.model ?? '', `${fault.id} begins: ${JSON.stringify(fault)}`)
        return fault
      }),
    ),
    post('/v2/faults/{fault}/cancel', 'rollouts', (request, id, _version, caller) =>
      answer(request, 200, () => {
        const { book, audit } = required()
        const fault = book.cancel(id)
        audit(caller, fault.model ?? '', `${id} is cancelled after ${fault.hits} requests`)
        return fault
      }),
    ),
  ].map(forAll)
}
