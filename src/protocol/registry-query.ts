// Reads the query strings of the registry's endpoints.

import { ServerError } from '../base/server-error.ts'
import type { RegistryQuery } from '../model/registered-model.ts'
import { queryOf } from './query-of.ts'

const defaultLimit = 100
const maxLimit = 1000
const historyLimit = 50

/** `?tag=a&tag=b&owner=me&q=text&limit=100&after=name`. Throws INVALID_ARG. */
export function readRegistryQuery(target: string): RegistryQuery {
  const query = knownQuery(target, ['tag', 'owner', 'q', 'limit', 'after'])
  return {
    tags: query.getAll('tag'),
    owner: query.get('owner'),
    text: query.get('q') ?? '',
    limit: readLimit(query, defaultLimit, maxLimit),
    after: query.get('after') ?? '',
  }
}

/** `?limit=10`. Throws INVALID_ARG. */
export const readHistoryLimit = (target: string): number =>
  readLimit(knownQuery(target, ['limit']), historyLimit, historyLimit)

/** Whether the target has `?details` or `?details=true`. Throws INVALID_ARG for other values; ignores other keys. */
export function readDetailsQuery(target: string): boolean {
  if (!target.includes('?')) return false
  const value = queryOf(target).get('details')
  if (value === null || value === 'false' || value === '0') return false
  if (value === '' || value === 'true' || value === '1') return true
  throw invalid(`query parameter 'details' must be true or false, got '${cut(value)}'`)
}

/** Refuses unknown keys: without this a misspelt filter would return everything. */
function knownQuery(target: string, known: readonly string[]): URLSearchParams {
  const query = queryOf(target)
  for (const key of query.keys()) {
    if (!known.includes(key)) {
      throw invalid(`unknown query parameter '${cut(key)}', expected one of: ${known.join(', ')}`)
    }
  }
  return query
}

function readLimit(query: URLSearchParams, usual: number, most: number): number {
  const text = query.get('limit')
  if (text === null) return usual
  const limit = /^[0-9]{1,6}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= most) return limit
  throw invalid(`query parameter 'limit' must be a number from 1 to ${most}, got '${cut(text)}'`)
}

const cut = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text)

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)
