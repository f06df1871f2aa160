import { ServerError } from '../base/server-error.ts'
import type { Action } from './action.ts'
import type { Caller } from './caller.ts'
import { forbiddenText } from './forbidden-text.ts'

/** Throws FORBIDDEN when the caller may not do this to the model. For calls whose body names the model. HOT. */
export function requireRight(caller: Caller, action: Action, model: string): void {
  if (caller.rights === null || caller.rights.may(action, model)) return
  throw ServerError.withoutStack('FORBIDDEN', forbiddenText(caller.principal, action, model))
}

/** Throws FORBIDDEN when the caller may not do this to the server as a whole, and so to every model. */
export function requireRightForAll(caller: Caller, action: Action): void {
  if (caller.rights === null || caller.rights.mayAll(action)) return
  throw ServerError.withoutStack('FORBIDDEN', forbiddenText(caller.principal, action, '', true))
}

/** Which models an answer to the caller may name; null: all. */
export function visibleModels({ rights }: Caller, action: Action): ((model: string) => boolean) | null {
  return rights === null || rights.mayAll(action) ? null : (model) => rights.may(action, model)
}
