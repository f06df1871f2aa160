import { worded, type WordedError } from '../model/worded-error.ts'

/** RapidJSON's texts for what is wrong with a document. */
const jsonSyntaxTexts = {
  documentEmpty: 'The document is empty.',
  rootNotSingular: 'The document root must not be followed by other values.',
  valueInvalid: 'Invalid value.',
  missingName: 'Missing a name for object member.',
  missingColon: 'Missing a colon after a name of object member.',
  missingCommaOrBrace: "Missing a comma or '}' after an object member.",
  missingCommaOrBracket: "Missing a comma or ']' after an array element.",
  hexInvalid: 'Incorrect hex digit after \\u escape in string.',
  surrogateInvalid: 'The surrogate pair in string is invalid.',
  escapeInvalid: 'Invalid escape character in string.',
  missingQuote: 'Missing a closing quotation mark in string.',
  numberTooBig: 'Number too big to be stored in double.',
  missingFraction: 'Miss fraction part in number.',
  missingExponent: 'Miss exponent in number.',
} as const

export type JsonSyntaxProblem = keyof typeof jsonSyntaxTexts

/** The offset counts bytes from the start of the document, which ends before `end`. */
export const jsonSyntaxError = (
  problem: JsonSyntaxProblem,
  offset: number,
  bytes: Uint8Array,
  end: number,
): WordedError =>
  worded('jsonSyntax', {
    text: jsonSyntaxTexts[problem],
    offset,
    found: offset < end ? byteText(bytes[offset] as number) : 'the end of the body',
  })

const byteText = (byte: number): string =>
  byte >= 0x20 && byte < 0x7f
    ? JSON.stringify(String.fromCharCode(byte))
    : `byte 0x${byte.toString(16).padStart(2, '0')}`
