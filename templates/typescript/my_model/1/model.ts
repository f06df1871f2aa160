// Counts the words and the characters of texts. There is no build step: Node runs this file as it is, in a thread of its own.

import { InferenceError, tensor, type ModelArgs, type ModelRequest } from 'galatea/model'

/** Once for each instance, before the first request: load weights and open connections here. */
export function initialize(args: ModelArgs) {
  args.log.info('the model is there', { name: args.modelName })
}

export function infer(request: ModelRequest) {
  const texts = request.input('TEXT').asStrings()
  if (texts.includes('')) throw new InferenceError('TEXT has an empty text', 'INVALID_ARG')
  const shape = [texts.length, 1]
  const words = texts.map((text) => text.split(/\s+/).filter((word) => word !== '').length)
  const characters = texts.map((text) => text.length)
  return [tensor('WORDS', 'INT32', shape, words), tensor('CHARACTERS', 'INT32', shape, characters)]
}
