/** What a front end must know of a language model to speak for it. A backend finds these facts when it loads the model. */
export type LanguageFacts = {
  /** What the model is for: it writes text, gives a vector for a text, or says how well texts fit a question. */
  readonly kind: 'generate' | 'embed' | 'rerank'
  /** Tokens of prompt and answer together. */
  readonly contextLength: number
  /** The Jinja text that makes one prompt of a chat; absent: the model has none. */
  readonly chatTemplate?: string
  /** The texts of the tokens that begin and end a text, which templates use; absent: the model has none. */
  readonly bosToken?: string
  readonly eosToken?: string
  readonly vocabularySize: number
  /** Numbers of one embedding. */
  readonly embeddingLength: number
}
