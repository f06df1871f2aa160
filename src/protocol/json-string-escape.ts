const hex = Buffer.from('0123456789ABCDEF')

/** The character after a backslash → the byte that the escape means; 0: not a short escape. */
const unescaped = new Uint8Array(256)
/** A byte → the character after the backslash in its escape: `u` for control characters, 0: no escape needed. */
const escaped = new Uint8Array(256)
escaped.fill(0x75, 0, 0x20)
for (const [name, byte] of [
  ['"', 0x22],
  ['\\', 0x5c],
  ['/', 0x2f],
  ['b', 0x08],
  ['f', 0x0c],
  ['n', 0x0a],
  ['r', 0x0d],
  ['t', 0x09],
] as const) {
  unescaped[name.charCodeAt(0)] = byte
  // RapidJSON reads `\/` but writes a slash as it is.
  if (name !== '/') escaped[byte] = name.charCodeAt(0)
}

function hexUnit(source: Uint8Array, position: number): number {
  let unit = 0
  for (let i = position; i < position + 4; i++) {
    const c = source[i]!
    unit = unit * 16 + (c <= 0x39 ? c - 0x30 : (c | 0x20) - 0x57)
  }
  return unit
}

/**
 * Writes the unescaped bytes of a JSON string (already checked, without its quotes), and returns where they end. They
 * are never longer than the text. Bytes that are not an escape are copied as they are, valid UTF-8 or not.
 */
export function unescapeJsonString(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  offset: number,
): number {
  let position = start
  while (position < end) {
    const c = source[position++]!
    if (c !== 0x5c) {
      target[offset++] = c
      continue
    }
    const kind = source[position++]!
    if (kind !== 0x75) {
      target[offset++] = unescaped[kind]!
      continue
    }
    let point = hexUnit(source, position)
    position += 4
    if (point >= 0xd800 && point <= 0xdbff) {
      point = 0x10000 + ((point - 0xd800) << 10) + (hexUnit(source, position + 2) - 0xdc00)
      position += 6
    }
    offset = writeUtf8(target, offset, point)
  }
  return offset
}

/**
 * Whether a JSON string with escapes (already checked, without its quotes) equals an ASCII text. Stops at the first
 * different byte and allocates nothing: a body may have thousands of names, and each is compared with several texts.
 */
export function standsFor(source: Uint8Array, start: number, end: number, expected: Uint8Array): boolean {
  let position = start
  for (let i = 0; i < expected.length; i++) {
    if (position >= end) return false
    let c = source[position++]!
    if (c === 0x5c) {
      const kind = source[position++]!
      if (kind === 0x75) {
        c = hexUnit(source, position)
        position += 4
      } else c = unescaped[kind]!
    }
    if (c !== expected[i]) return false
  }
  return position === end
}

function writeUtf8(target: Uint8Array, offset: number, point: number): number {
  if (point < 0x80) {
    target[offset++] = point
  } else if (point < 0x800) {
    target[offset++] = 0xc0 | (point >> 6)
    target[offset++] = 0x80 | (point & 0x3f)
  } else if (point < 0x10000) {
    target[offset++] = 0xe0 | (point >> 12)
    target[offset++] = 0x80 | ((point >> 6) & 0x3f)
    target[offset++] = 0x80 | (point & 0x3f)
  } else {
    target[offset++] = 0xf0 | (point >> 18)
    target[offset++] = 0x80 | ((point >> 12) & 0x3f)
    target[offset++] = 0x80 | ((point >> 6) & 0x3f)
    target[offset++] = 0x80 | (point & 0x3f)
  }
  return offset
}

/** The most bytes `escapeJsonString` writes for so many. */
export const escapedBytesAtMost = (bytes: number): number => bytes * 6

/** Writes bytes as the inside of a JSON string, escaped like RapidJSON, and returns where they end. */
export function escapeJsonString(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  offset: number,
): number {
  for (let i = start; i < end; i++) {
    const c = source[i]!
    const kind = escaped[c]!
    if (kind === 0) {
      target[offset++] = c
      continue
    }
    target[offset++] = 0x5c
    target[offset++] = kind
    if (kind === 0x75) {
      target[offset++] = 0x30
      target[offset++] = 0x30
      target[offset++] = hex[c >> 4]!
      target[offset++] = hex[c & 15]!
    }
  }
  return offset
}
