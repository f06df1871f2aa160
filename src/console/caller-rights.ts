// Who the server takes the visitor for, and what the visitor may do. Buttons that would be refused are not shown.

import { signal } from '@preact/signals'
import { accessKey, call, ServerRefusal } from './server-api.ts'

export type Limit = {
  readonly unit: string
  readonly amount: number
  readonly period?: string
  readonly left: number
  readonly whole_in_seconds?: number
}

export type Me = {
  /** False: the server lets everybody do everything. */
  readonly access: boolean
  readonly kind: string
  readonly principal: string
  readonly tenant: string
  readonly groups: readonly string[]
  readonly allowed: { readonly all_models: readonly string[]; readonly some_models: readonly string[] }
  readonly limits: readonly Limit[]
}

/** Null: the server has not said. */
export const whoAmI = signal<Me | null>(null)

/** The key for which the server was asked; null: it was not asked yet. */
const askedFor = signal<string | null>(null)

/** A visitor with a key sees a page when it is known what the visitor may do, so that no page asks for what is refused. */
export const isVisitorKnown = (): boolean => accessKey.value === '' || askedFor.value === accessKey.value

/** True while the server has not said: a button that is refused says why. */
export function may(action: string): boolean {
  const me = whoAmI.value
  return me === null || me.allowed.all_models.includes(action) || me.allowed.some_models.includes(action)
}

/** For what shows every model at once. */
export function mayAll(action: string): boolean {
  const me = whoAmI.value
  return me === null || me.allowed.all_models.includes(action)
}

/** Throws where the server does not answer. */
export async function refreshRights(): Promise<void> {
  const key = accessKey.value
  try {
    whoAmI.value = (await call('/v2/access/me')) as Me
  } catch (reason) {
    whoAmI.value = null
    if (!(reason instanceof ServerRefusal)) throw reason
  }
  askedFor.value = key
}
