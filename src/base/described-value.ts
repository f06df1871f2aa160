/** A text of a user's file as messages show it: its beginning. */
export const cutText = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text)

/** What stands in a file in place of what was expected, for a message. */
export function describedValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return `a list of ${value.length}`
  if (typeof value === 'object') return 'a mapping'
  if (typeof value === 'string') return `the text '${cutText(value)}'`
  return `the ${typeof value} ${String(value as number | boolean)}`
}
