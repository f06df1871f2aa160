// The JSON text of an answer that may have millions of numbers, a piece at a time, for `runInSlices`: the same text as that of
// JSON.stringify. Lists of numbers may be typed arrays, and a list may be anything that can be gone through, made as it is written.

type TypedNumbers = Exclude<NodeJS.TypedArray, BigInt64Array | BigUint64Array>

/** Below this depth a value is small, and is written in one step. */
const deepest = 5
const numbersPerStep = 4096
const pieceChars = 64 * 1024

/** Throws what JSON.stringify throws. */
export function* jsonInSteps(value: unknown): Generator<void, Buffer[]> {
  const pieces: Buffer[] = []
  let text = ''
  for (const part of partsOf(value, 0)) {
    text += part
    if (text.length < pieceChars) continue
    pieces.push(Buffer.from(text))
    text = ''
    yield
  }
  pieces.push(Buffer.from(text))
  return pieces
}

function* partsOf(value: unknown, depth: number): Generator<string> {
  if (isNumbers(value)) yield* numbersText(value)
  else if (depth > deepest || typeof value !== 'object' || value === null) yield JSON.stringify(value) ?? 'null'
  else if (Symbol.iterator in value) yield* listParts(value as Iterable<unknown>, depth)
  else {
    let mark = '{'
    for (const [name, member] of Object.entries(value)) {
      if (member === undefined) continue
      yield `${mark}${JSON.stringify(name)}:`
      yield* partsOf(member, depth + 1)
      mark = ','
    }
    yield mark === '{' ? '{}' : '}'
  }
}

function* listParts(list: Iterable<unknown>, depth: number): Generator<string> {
  let mark = '['
  for (const element of list) {
    yield mark
    yield* partsOf(element, depth + 1)
    mark = ','
  }
  yield mark === '[' ? '[]' : ']'
}

const isNumbers = (value: unknown): value is TypedNumbers =>
  ArrayBuffer.isView(value) &&
  !(value instanceof DataView || value instanceof BigInt64Array || value instanceof BigUint64Array)

function* numbersText(numbers: TypedNumbers): Generator<string> {
  yield '['
  for (let at = 0; at < numbers.length; at += numbersPerStep) {
    const some = JSON.stringify(Array.from(numbers.subarray(at, at + numbersPerStep))).slice(1, -1)
    yield at === 0 ? some : `,${some}`
  }
  yield ']'
}
