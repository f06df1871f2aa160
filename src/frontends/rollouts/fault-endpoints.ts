// GET and POST /v2/faults: faults that are in force, and new ones.

import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { FaultBook } from '../../rollouts/fault-book.ts'
import { answer, bodyOf } from '../../ports/http/json-answers.ts'

export type FaultDesk = {
  readonly book: FaultBook
  /** Puts on record who did what. */
  readonly audit: (caller: Caller, model: string, what: string) => void
}

export class FaultEndpoints {
  readonly #desk: FaultDesk | null

  /** Null: the server was started without `--allow-fault-injection`. */
  constructor(desk: FaultDesk | null) {
    this.#desk = desk
  }

  get #required(): FaultDesk {
    if (this.#desk !== null) return this.#desk
    throw ServerError.withoutStack(
      'UNSUPPORTED',
      'this server injects no faults: start it with --allow-fault-injection',
    )
  }

  readonly list: RouteHandler = (request, _name, _version, caller) =>
    answer(request, request.method === 'POST' ? 201 : 200, () => {
      if (request.method !== 'POST') return this.#desk?.book.list() ?? []
      const { book, audit } = this.#required
      const fault = book.add(bodyOf(request), caller.principal)
      audit(caller, fault.model ?? '', `${fault.id} begins: ${JSON.stringify(fault)}`)
      return fault
    })

  readonly cancel: RouteHandler = (request, id, _version, caller) =>
    answer(request, 200, () => {
      const { book, audit } = this.#required
      const fault = book.cancel(id)
      audit(caller, fault.model ?? '', `${id} is cancelled after ${fault.hits} requests`)
      return fault
    })
}
