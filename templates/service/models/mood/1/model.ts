// The mood of texts: good words less bad words. There is no build step: Node runs this file as it is, in a thread of its own.

import { fromStrings, InferenceError, tensor, type ModelRequest } from 'galatea/model'

const good = new Set(['good', 'great', 'fine', 'love', 'happy', 'thanks'])
const bad = new Set(['bad', 'awful', 'sad', 'hate', 'broken', 'slow'])

/** All requests of a batch. The answers are in the same order; an InferenceError in place of an answer fails one request. */
export function execute(requests: readonly ModelRequest[]) {
  return requests.map((request) => {
    const texts = request.input('TEXT').asStrings()
    if (texts.some((text) => text.trim() === '')) return new InferenceError('TEXT has an empty text', 'INVALID_ARG')
    const scores = texts.map(scoreOf)
    const shape = [texts.length, 1]
    return [fromStrings('MOOD', shape, scores.map(moodOf)), tensor('SCORE', 'FP32', shape, scores)]
  })
}

/** From -1, when all words are bad, to 1, when all are good. */
function scoreOf(text: string): number {
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? []
  const points = words.map((word) => Number(good.has(word)) - Number(bad.has(word)))
  return points.reduce((sum, point) => sum + point, 0) / Math.max(words.length, 1)
}

const moodOf = (score: number): string => (score > 0 ? 'good' : score < 0 ? 'bad' : 'neither')
