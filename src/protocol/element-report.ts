// Looks at `data` again once it is known not to fit its tensor, to say which element is wrong, and how many there are.

import type { DataType } from '../tensor/data-type.ts'
import { char, type JsonScanner } from './json-scanner.ts'

type ElementReport = {
  /** All elements, at any depth. */
  readonly count: number
  /** The first element that the type cannot hold; -1: each fits. */
  readonly index: number
  /** Its text, cut off when long. */
  readonly found: string
}

const longestText = 40

/** The scanner stands at the `[` of the array, and afterwards behind the array. Throws for malformed JSON. */
export function reportElements(scanner: JsonScanner, dataType: DataType): ElementReport {
  let count = 0
  let index = -1
  let found = ''
  let depth = 0
  for (;;) {
    if (scanner.peek() === char.leftBracket) {
      if (scanner.nextElement(true)) {
        depth++
        continue
      }
    } else {
      const start = scanner.position
      scanner.skipValue()
      if (index < 0 && !holds(dataType, scanner, start)) {
        index = count
        const text = scanner.bytes.toString('utf8', start, Math.min(scanner.position, start + longestText))
        found = scanner.position - start > longestText ? `${text}…` : text
      }
      count++
    }
    for (;;) {
      if (depth === 0) return { count, index, found }
      if (scanner.nextElement(false)) break
      depth--
    }
  }
}

const mostDigits = 24

function holds(dataType: DataType, { bytes, position }: JsonScanner, start: number): boolean {
  const first = bytes[start] as number
  if (dataType === 'BOOL') return first === 0x74 || first === 0x66
  if (dataType === 'BYTES') return first === char.quote
  // Numbers begin with a digit or a minus, NaN and Infinity with their letters.
  const isNumber = first === char.minus || (first >= char.zero && first <= char.nine)
  if (dataType.startsWith('FP')) return isNumber || first === 0x4e || first === 0x49
  if (!isNumber || position - start > mostDigits) return false
  const text = bytes.toString('latin1', start, position)
  if (!/^-?\d+$/.test(text)) return false
  // Smaller types take the low bits of larger integers, as in Triton.
  const value = BigInt(text)
  return dataType.startsWith('INT') ? BigInt.asIntN(64, value) === value : BigInt.asUintN(64, value) === value
}
