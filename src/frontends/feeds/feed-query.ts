import { ServerError } from '../../base/server-error.ts'
import { queryOf } from '../../protocol/query-of.ts'

/** The longest value of a query parameter that feeds take. */
const longestValue = 256

/** The query of a target with only these parameters. Throws INVALID_ARG. */
export function feedQuery(target: string, known: readonly string[]): (name: string) => string {
  const query = queryOf(target)
  for (const [name, value] of query) {
    if (!known.includes(name)) {
      const names = known.length === 0 ? 'none' : known.join(', ')
      throw new ServerError('INVALID_ARG', `there is no query parameter '${name.slice(0, 60)}', there is ${names}`)
    }
    if (value.length > longestValue) {
      throw new ServerError(
        'INVALID_ARG',
        `'${name}' has ${value.length} characters, at most ${longestValue} are taken`,
      )
    }
  }
  return (name) => query.get(name) ?? ''
}

/** A whole number within bounds; the default when the parameter is missing. Throws INVALID_ARG. */
export function numberOf(name: string, text: string, byDefault: number, most: number): number {
  if (text === '') return byDefault
  const value = Number(text)
  if (Number.isFinite(value) && value >= 0 && value <= most) return value
  throw new ServerError('INVALID_ARG', `'${name}' must be a number from 0 to ${most}, got '${text.slice(0, 60)}'`)
}

/** `true` or `false`. Throws INVALID_ARG. */
export function flagOf(name: string, text: string): boolean {
  if (text === '' || text === 'false') return false
  if (text === 'true') return true
  throw new ServerError('INVALID_ARG', `'${name}' must be true or false, got '${text.slice(0, 60)}'`)
}
