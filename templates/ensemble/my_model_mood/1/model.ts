// Words in, their mood out: good words less bad words. Put a network in its place.

import { fromStrings, tensor, type ModelRequest } from 'galatea/model'

const good = new Set(['good', 'great', 'fine', 'love', 'happy'])
const bad = new Set(['bad', 'awful', 'sad', 'hate', 'broken'])

export function infer(request: ModelRequest) {
  const words = request.input('WORDS').asStrings()
  const score = words.filter((word) => good.has(word)).length - words.filter((word) => bad.has(word)).length
  const mood = score > 0 ? 'good' : score < 0 ? 'bad' : 'neither'
  return [fromStrings('MOOD', [1], [mood]), tensor('SCORE', 'FP32', [1], [score])]
}
