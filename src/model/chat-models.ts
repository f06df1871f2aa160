// What a model that sends requests on to language models must know of them. The front end of OpenAI's API has this knowledge.

import type { ModelVersion } from './model-version.ts'

/** A chat as one model wants it, and the reader of what that model says. */
export type ModelChat = {
  /** The prompt, made with the model's own template. */
  readonly text: string
  /** The form that the answer must have so that it is a call of a tool; null: the model is free. */
  readonly schema: object | null
  /**
   * The next piece of the answer → what is content, and the JSON text of reasoning and calls of tools in the form of OpenAI's deltas;
   * '' for none. `isEnd`: what was held back is told, too.
   */
  read(piece: string, isEnd: boolean): { readonly content: string; readonly delta: string }
}

export interface ChatModels {
  /** The version that requests for this model get; null: the model is not there or is not ready. */
  find(name: string): ModelVersion | null
  /** `chat` is the JSON text of input `chat_request`. A model that sleeps is woken. Rejects with ServerError. */
  prepare(model: ModelVersion, chat: string): Promise<ModelChat>
  close(): void
}
