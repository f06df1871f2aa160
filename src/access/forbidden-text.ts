import type { Action } from './action.ts'

/** What a caller is told who lacks a permission. */
export function forbiddenText(principal: string, action: Action, model: string, isForAll = false): string {
  const what = model === '' ? (isForAll ? ' of the whole server' : '') : ` of model '${model.slice(0, 256)}'`
  const permission = model === '' ? action : `${action}@${model.slice(0, 256)}`
  return `'${principal}' may not use '${action}'${what}: a role of '${principal}' needs the permission '${permission}'`
}
