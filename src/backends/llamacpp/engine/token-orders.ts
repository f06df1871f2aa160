import { ServerError } from '../../../base/server-error.ts'
import type { EngineMessage, ToEngine } from '../engine-protocol.ts'
import type { LlamaSession } from './llama-session.ts'
import { requireTextLength } from './require-text-length.ts'

type TokenOrder = Extract<ToEngine, { kind: 'tokenize' | 'detokenize' }>

/** Texts to tokens and back, beside the steps. */
export async function answerTokens(session: LlamaSession, order: TokenOrder): Promise<EngineMessage> {
  if (order.kind === 'tokenize') {
    requireTextLength(order.text, session.contextLength)
    return { kind: 'tokens', key: order.key, tokens: await session.tokenize(order.text, order.addSpecial) }
  }
  const beyond = order.tokens.find((token) => token >= session.vocabularySize)
  if (beyond !== undefined) {
    const most = session.vocabularySize - 1
    throw ServerError.withoutStack('INVALID_ARG', `token ${beyond} is not known, the last one is ${most}`)
  }
  const bytes = Buffer.concat(order.tokens.map((token) => session.pieceOf(token, true)))
  return { kind: 'plain', key: order.key, text: bytes.toString('utf8') }
}
