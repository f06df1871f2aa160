import { ServerError } from '../../../base/server-error.ts'

/** No text has so many bytes for each of its tokens. A longer text cannot fit, and to tokenize it would take time and memory. */
const mostBytesPerToken = 64

export function requireTextLength(text: string, contextLength: number): void {
  const most = contextLength * mostBytesPerToken
  if (text.length <= most) return
  const message = `text_input has ${text.length} characters, and the model's context of ${contextLength} tokens takes at most ${most}`
  throw ServerError.withoutStack('INVALID_ARG', message)
}

export function requireKnownTokens(tokens: readonly number[], vocabularySize: number): void {
  const beyond = tokens.find((token) => token >= vocabularySize)
  if (beyond === undefined) return
  throw ServerError.withoutStack('INVALID_ARG', `token ${beyond} is not known, the last one is ${vocabularySize - 1}`)
}
