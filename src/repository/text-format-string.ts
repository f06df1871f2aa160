// Reads the inside of a quoted string of protobuf text format. Octal and hexadecimal escapes mean bytes, so the result is
// bytes too. The bytes become text when all pieces of a string are together.

type Fail = (at: number, what: string) => never

const simpleEscapes: Readonly<Record<string, number>> = {
  a: 0x07,
  b: 0x08,
  f: 0x0c,
  n: 0x0a,
  r: 0x0d,
  t: 0x09,
  v: 0x0b,
  '\\': 0x5c,
  "'": 0x27,
  '"': 0x22,
  '?': 0x3f,
}

const escape = /\\(?:([abfnrtv\\'"?])|([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))/y

export function decodeStringBody(body: string, fail: Fail): Uint8Array {
  if (!body.includes('\\')) return Buffer.from(body, 'utf8')
  const pieces: Uint8Array[] = []
  let at = 0
  while (at < body.length) {
    const slash = body.indexOf('\\', at)
    if (slash < 0) {
      pieces.push(Buffer.from(body.slice(at), 'utf8'))
      break
    }
    if (slash > at) pieces.push(Buffer.from(body.slice(at, slash), 'utf8'))
    escape.lastIndex = slash
    const match = escape.exec(body)
    if (match === null) return fail(slash, `unknown escape '${body.slice(slash, slash + 2)}' in a string`)
    const [whole, simple, octal, hex, short, long] = match
    at = slash + whole.length
    if (simple !== undefined) pieces.push(Uint8Array.of(simpleEscapes[simple] ?? 0))
    else if (octal !== undefined) pieces.push(byteOf(Number.parseInt(octal, 8), whole, slash, fail))
    else if (hex !== undefined) pieces.push(Uint8Array.of(Number.parseInt(hex, 16)))
    else at = pushCodePoint(body, slash, whole, Number.parseInt(short ?? long ?? '', 16), pieces, fail)
  }
  return Buffer.concat(pieces)
}

function byteOf(value: number, whole: string, at: number, fail: Fail): Uint8Array {
  if (value > 0xff) return fail(at, `escape '${whole}' is more than one byte`)
  return Uint8Array.of(value)
}

/** Returns the position behind the escape: two surrogates one after the other are one character. */
function pushCodePoint(
  body: string,
  slash: number,
  whole: string,
  codePoint: number,
  pieces: Uint8Array[],
  fail: Fail,
): number {
  let end = slash + whole.length
  let value = codePoint
  if (value >= 0xd800 && value <= 0xdbff) {
    const low = /^\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(body.slice(end))
    if (low === null) return fail(slash, `escape '${whole}' is half of a character: its second half is missing`)
    value = 0x10000 + ((value - 0xd800) << 10) + (Number.parseInt(low[1] ?? '', 16) - 0xdc00)
    end += low[0].length
  } else if (value > 0x10ffff || (value >= 0xdc00 && value <= 0xdfff)) {
    return fail(slash, `escape '${whole}' is no Unicode character`)
  }
  pieces.push(Buffer.from(String.fromCodePoint(value), 'utf8'))
  return end
}
