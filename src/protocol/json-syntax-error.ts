import { ServerError } from '../base/server-error.ts'

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

/** Malformed JSON is INTERNAL in Triton, hence a 500. The offset counts bytes from the start of the document. */
export const jsonSyntaxError = (problem: JsonSyntaxProblem, offset: number): ServerError =>
  ServerError.withoutStack(
    'INTERNAL',
    `failed to parse the request JSON buffer: ${jsonSyntaxTexts[problem]} at ${offset}`,
  )
