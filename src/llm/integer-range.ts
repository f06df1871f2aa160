// GBNF for whole numbers between two bounds, by their digits.

/** Of numbers without an upper bound, those of so many digits are allowed. */
const mostDigits = 16

/** An expression for the whole numbers from `least` to `most`; null: no bound. Not both are null. */
export function integerRange(least: number | null, most: number | null): string {
  const parts: string[] = []
  const [low, high] = [least ?? -Infinity, most ?? Infinity]
  if (low < 0)
    parts.push(
      ...natural(Math.max(1, -Math.min(high, -1)), low === -Infinity ? null : -low).map((part) => `"-" ${part}`),
    )
  if (high >= 0) parts.push(...natural(Math.max(0, low), high === Infinity ? null : high))
  return parts.join(' | ')
}

/** Alternatives for the numbers from `low` to `high`, neither of them negative. */
function natural(low: number, high: number | null): string[] {
  const lowText = String(low)
  if (high === null) {
    const top = '9'.repeat(lowText.length)
    const longer = lowText.length < mostDigits ? [`[1-9] [0-9]{${lowText.length},${mostDigits - 1}}`] : []
    return [...sameLength(lowText, top), ...longer]
  }
  const highText = String(high)
  const parts: string[] = []
  for (let length = lowText.length; length <= highText.length; length++) {
    const from = length === lowText.length ? lowText : `1${'0'.repeat(length - 1)}`
    const to = length === highText.length ? highText : '9'.repeat(length)
    parts.push(...sameLength(from, to))
  }
  return parts
}

/** Alternatives for the numbers between two numbers of as many digits. */
function sameLength(from: string, to: string): string[] {
  const rest = from.length - 1
  const [first, last] = [Number(from[0]), Number(to[0])]
  const any = rest === 0 ? '' : ` [0-9]{${rest}}`
  const isAll = /^.0*$/.test(from) && /^.9*$/.test(to)
  if (rest === 0 || isAll) return [`[${first}-${last}]${any}`]
  if (first === last) return sameLength(from.slice(1), to.slice(1)).map((part) => `"${first}" ${part}`)
  const parts = sameLength(from.slice(1), '9'.repeat(rest)).map((part) => `"${first}" ${part}`)
  if (first + 1 < last) parts.push(`[${first + 1}-${last - 1}]${any}`)
  parts.push(...sameLength('0'.repeat(rest), to.slice(1)).map((part) => `"${last}" ${part}`))
  return parts
}
