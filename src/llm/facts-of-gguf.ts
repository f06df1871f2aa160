import type { GgufFile } from './gguf-file.ts'
import type { LanguageFacts } from './language-facts.ts'

/** Models of these kinds only read: they give vectors. */
const readers = /bert|^t5encoder$|^gemma-embedding$/
const rankPooling = 4

/** What the header of a GGUF file says about its model. */
export function factsOfGguf({ architecture, values, tokenCount, bosToken, eosToken }: GgufFile): LanguageFacts {
  const number = (key: string): number => {
    const value = values.get(`${architecture}.${key}`)
    return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
  }
  const chatTemplate = values.get('tokenizer.chat_template')
  const pooling = number('pooling_type')
  return {
    kind: pooling === rankPooling ? 'rerank' : pooling > 0 || readers.test(architecture) ? 'embed' : 'generate',
    contextLength: number('context_length'),
    vocabularySize: tokenCount > 0 ? tokenCount : number('vocab_size'),
    embeddingLength: number('embedding_length'),
    ...(typeof chatTemplate === 'string' ? { chatTemplate } : {}),
    ...(bosToken === '' ? {} : { bosToken }),
    ...(eosToken === '' ? {} : { eosToken }),
  }
}
