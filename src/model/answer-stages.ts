/**
 * The stages of an answer's way from the model to the client, in their order. A stage is there only for requests that need
 * it; most requests have none of these.
 *
 * 1. `trim`: the dynamic batcher filled up the inputs, and cuts the outputs back to the request's own size.
 * 2. `states`: the sequence scheduler takes the states of the sequence out of the answer.
 * 3. `order`: the scheduler keeps answers in the order of their requests, and may keep an answer until its turn.
 * 4. `share`: the single-flight scheduler gives the answer to the requests that asked the same.
 * 5. `keep`: the response cache keeps the answer.
 *
 * Behind the last stage the version that admitted the request counts the answer, notes it in the trace and reshapes its outputs
 * (`RequestAccount.answered`). Then the sink of the request gets the answer: the exchange, which writes it.
 */
export const answerStages = ['trim', 'states', 'order', 'share', 'keep'] as const

export type AnswerStageName = (typeof answerStages)[number]
