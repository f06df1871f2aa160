import type { EngineMessage, ToEngine } from '../engine-protocol.ts'
import type { LlamaSession } from './llama-session.ts'
import { requireKnownTokens, requireTextLength } from './require-text-length.ts'

type TokenOrder = Extract<ToEngine, { kind: 'tokenize' | 'detokenize' }>

/** Texts to tokens and back, beside the steps. */
export async function answerTokens(session: LlamaSession, order: TokenOrder): Promise<EngineMessage> {
  if (order.kind === 'tokenize') {
    requireTextLength(order.text, session.contextLength)
    return { kind: 'tokens', key: order.key, tokens: await session.tokenize(order.text, order.addSpecial) }
  }
  requireKnownTokens(order.tokens, session.vocabularySize)
  const bytes = Buffer.concat(order.tokens.map((token) => session.pieceOf(token, true)))
  return { kind: 'plain', key: order.key, text: bytes.toString('utf8') }
}
