/**
 * The stages that an answer passes between the model and the client, in their order. A request has only the stages that
 * it needs; most requests have none.
 *
 * 1. `trim`: the dynamic batcher padded the inputs, and cuts the outputs back to the request's own size.
 * 2. `states`: the sequence scheduler takes the states of the sequence out of the answer.
 * 3. `order`: the scheduler puts answers in the order of their requests, and may hold an answer until its turn.
 * 4. `share`: the single-flight scheduler gives the answer also to the waiting requests with equal content.
 * 5. `keep`: the response cache stores the answer.
 *
 * After the last stage the version that admitted the request counts the answer, notes it in the trace and reshapes its
 * outputs (`RequestAccount.answered`). Then the sink of the request gets the answer: the exchange, which writes it.
 */
export const answerStages = ['trim', 'states', 'order', 'share', 'keep'] as const

export type AnswerStageName = (typeof answerStages)[number]
