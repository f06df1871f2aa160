import type { Account } from '../access/account.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'

/** The parameter of an answer in which a model tells how many tokens the answer has. */
const tokensParameter = 'tokens'

/** Counts what one inference uses, for the account of its caller. */
export class InferenceMeter {
  readonly #account: Account
  readonly #model: string
  readonly #rows: number
  #tokens = 0
  #answers = 0
  #isEnded = false

  constructor(account: Account, model: string, rows: number) {
    this.#account = account
    this.#model = model
    this.#rows = rows
  }

  /** Each answer of a stream without a number of its own counts as one token. */
  note(response: InferenceResponse, request: InferenceRequest): void {
    if (!response.isFlagOnly && response.error === null) {
      this.#answers++
      const tokens = Number(response.parameters?.get(tokensParameter) ?? 0)
      if (tokens > 0 && Number.isFinite(tokens)) this.#tokens += tokens
    }
    if (!response.isFinal || this.#isEnded) return
    this.#isEnded = true
    const tokens = this.#tokens > 0 || this.#answers <= 1 ? this.#tokens : this.#answers
    const computeNs = Math.max(0, request.computeEndNs - request.computeStartNs)
    this.#account.end({ model: this.#model, rows: this.#rows, tokens, computeNs })
  }
}
