// Floating-point numbers in the form of C's `%g`, as servers in C++ print them: six digits where they are enough to read the number
// back, else nine of a float and seventeen of a double.

export function floatText(value: number): string {
  return decimalText(value, Math.fround, 9)
}

export function doubleText(value: number): string {
  return decimalText(value, Number, 17)
}

function decimalText(value: number, rounded: (read: number) => number, mostDigits: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value < 0 ? '-Infinity' : 'Infinity'
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return Object.is(value, -0) ? '-0.0' : `${value}.0`
  const short = mayBeShort(value, rounded) ? general(value, 6) : ''
  const text = short !== '' && rounded(Number(short)) === value ? short : general(value, mostDigits)
  return text.includes('.') || text.includes('e') ? text : `${text}.0`
}

/** False where six digits are surely too few: printing them and reading them back costs more than this. */
function mayBeShort(value: number, rounded: (read: number) => number): boolean {
  const magnitude = Math.abs(value)
  if (magnitude < 1e-4 || magnitude >= 1e6) return true
  const scale = 10 ** (5 - Math.floor(Math.log10(magnitude)))
  return rounded(Math.round(value * scale) / scale) === value
}

/** C's `%.<digits>g`. */
function general(value: number, digits: number): string {
  const magnitude = Math.abs(value)
  // In this range JavaScript and C agree on the form without an exponent; rounding up may lead out of the range.
  if (magnitude >= 1e-4 && magnitude < 10 ** (digits - 1)) return withoutZeros(value.toPrecision(digits))
  const [mantissa = '', exponent = ''] = value.toExponential(digits - 1).split('e')
  const power = Number(exponent)
  if (power >= -4 && power < digits) return withoutZeros(value.toPrecision(digits))
  const sign = power < 0 ? '-' : '+'
  return `${withoutZeros(mantissa)}e${sign}${String(Math.abs(power)).padStart(2, '0')}`
}

function withoutZeros(text: string): string {
  if (!text.includes('.')) return text
  let end = text.length
  while (text.charCodeAt(end - 1) === 0x30) end--
  if (text.charCodeAt(end - 1) === 0x2e) end--
  return text.slice(0, end)
}
