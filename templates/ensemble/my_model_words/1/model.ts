// A text in, its words in small letters out.

import { fromStrings, type ModelRequest } from 'galatea/model'

export function infer(request: ModelRequest) {
  const [text = ''] = request.input('TEXT').asStrings()
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? []
  return [fromStrings('WORDS', [words.length], words)]
}
