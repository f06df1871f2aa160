// The answer of the branch that the intent names.

import { fromStrings, type ModelRequest } from 'galatea/model'

export function infer(request: ModelRequest) {
  const intents = request.input('INTENT')
  const orders = request.input('ORDER').asStrings()
  const questions = request.input('QUESTION').asStrings()
  const answers = intents.asStrings().map((intent, row) => (intent === 'order' ? orders[row] : questions[row]) ?? '')
  return [fromStrings('ANSWER', intents.shape, answers)]
}
