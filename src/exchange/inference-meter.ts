import type { Account } from '../access/account.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'

/** The parameter of an answer in which a model tells how many tokens the answer has. */
const tokensParameter = 'tokens'

/** No model has a longer name: any model may give a text of any length the name of an output of routers. */
const longestModelName = 1024

/** Counts what one inference uses, for the account of its caller. */
export class InferenceMeter {
  readonly #account: Account
  #model: string
  readonly #rows: number
  #tokens = 0
  /** Of the prompt: each answer of a language model may tell it again. */
  #inputTokens = 0
  #answers = 0
  #isEnded = false

  constructor(account: Account, model: string, rows: number) {
    this.#account = account
    this.#model = model
    this.#rows = rows
  }

  /** Language models count in outputs: the tokens of the prompt, and those of this answer. */
  #noteTensors({ outputs }: InferenceResponse): void {
    for (const { name, dataType, bytes } of outputs) {
      if (dataType !== 'UINT32' || bytes.length !== 4) continue
      const count = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true)
      if (name === 'num_input_tokens') this.#inputTokens = Math.max(this.#inputTokens, count)
      else if (name === 'num_output_tokens') this.#tokens += count
    }
  }

  /** A router tells which model has answered: the use is that model's. The text stands behind its length of four bytes. */
  #noteModel({ outputs }: InferenceResponse): void {
    const named = outputs.find(({ name }) => name === 'answered_by')
    if (named?.dataType === 'BYTES' && named.bytes.length > 4 && named.bytes.length <= longestModelName)
      this.#model = Buffer.from(named.bytes.subarray(4)).toString()
  }

  /** Each answer of a stream without a number of its own counts as one token. */
  note(response: InferenceResponse, request: InferenceRequest): void {
    if (!response.isFlagOnly && response.error === null) {
      this.#answers++
      this.#noteModel(response)
      const tokens = Number(response.parameters?.get(tokensParameter) ?? 0)
      if (tokens > 0 && Number.isFinite(tokens)) this.#tokens += tokens
      else this.#noteTensors(response)
    }
    if (!response.isFinal || this.#isEnded) return
    this.#isEnded = true
    const told = this.#tokens + this.#inputTokens
    const tokens = told > 0 || this.#answers <= 1 ? told : this.#answers
    const computeNs = Math.max(0, request.computeEndNs - request.computeStartNs)
    this.#account.end({ model: this.#model, rows: this.#rows, tokens, computeNs })
  }
}
