// Runs a Program inside a Worker: gives it requests, checks its answers and sends them. Every request gets exactly one
// final answer. When the Worker dies, the server gives this answer.

import { NumberTable } from '../../base/number-table.ts'
import { describe } from './element-arrays.ts'
import { InferenceError } from './inference-error.ts'
import { ModelRequest } from './model-request.ts'
import { checkResponse } from './model-response.ts'
import type { Outbox } from './outbox.ts'
import type { Program } from './program.ts'
import { Reschedule } from './reschedule.ts'
import { ResponseSender } from './response-sender.ts'
import { ResponseWindow } from './response-window.ts'
import type { ExpectedOutput, RequestMessage, WorkerTask } from './worker-protocol.ts'

/** A request from its arrival to its final answer. */
type Open = {
  readonly key: number
  readonly request: ModelRequest
  readonly window: ResponseWindow
  readonly ended: Promise<void>
  readonly end: () => void
  isEnded: boolean
}

export class ModelHost {
  readonly #program: Program
  readonly #outbox: Outbox
  readonly #task: WorkerTask
  readonly #expected: ReadonlyMap<string, ExpectedOutput>
  readonly #open = new NumberTable<Open>()

  constructor(program: Program, outbox: Outbox, task: WorkerTask) {
    this.#program = program
    this.#outbox = outbox
    this.#task = task
    this.#expected = new Map(task.outputs.map((output) => [output.name, output]))
  }

  async execute(messages: readonly RequestMessage[], buffers: readonly ArrayBuffer[]): Promise<void> {
    this.#outbox.keep(buffers)
    const batch = messages.map((message) => this.#receive(message, buffers))
    try {
      const result: unknown = await this.#program.execute(batch.map((open) => open.request))
      await this.#answerBatch(batch, result)
    } catch (reason) {
      for (const open of batch) this.#fail(open, reason, true, false)
    }
    this.#outbox.add({ kind: 'executed' })
  }

  cancel(key: number): void {
    const open = this.#open.get(key)
    open?.request.cancel()
    open?.window.close()
  }

  taken(key: number, count: number, bytes: number): void {
    this.#open.get(key)?.window.taken(count, bytes)
  }

  #receive(message: RequestMessage, buffers: readonly ArrayBuffer[]): Open {
    const { promise, resolve } = Promise.withResolvers<void>()
    const window = new ResponseWindow()
    const sender = new ResponseSender(this.#task.isDecoupled, window, (response, isFinal) => {
      if (response instanceof Error) this.#fail(open, response, isFinal)
      else this.#respond(open, response, isFinal)
    })
    const open: Open = {
      key: message.key,
      request: new ModelRequest(message, buffers, sender),
      window,
      ended: promise,
      end: resolve,
      isEnded: false,
    }
    this.#open.set(message.key, open)
    return open
  }

  async #answerBatch(batch: readonly Open[], result: unknown): Promise<void> {
    const [only] = batch
    if (isAsyncIterable(result) && only !== undefined) {
      if (batch.length > 1) throw new InferenceError(this.#text(oneStreamText(batch.length)))
      await this.#answer(only, result)
      return
    }
    // A decoupled model may return nothing: its senders answer, now or later.
    const answers: unknown = result === undefined || result === null ? batch.map(() => null) : result
    if (!Array.isArray(answers)) {
      throw new InferenceError(this.#text(`Expected a list in the execute return, found ${describe(result)}.`))
    }
    if (answers.length !== batch.length) {
      throw new InferenceError(this.#text(countText(batch.length, answers.length)))
    }
    await Promise.all(batch.map((open, index) => this.#answer(open, answers[index])))
  }

  /** Never throws: only the client of the request gets the error of an answer. */
  async #answer(open: Open, pending: unknown): Promise<void> {
    try {
      const answer: unknown = await pending
      if (answer instanceof Error) this.#fail(open, answer)
      else if (answer instanceof Reschedule) this.#reschedule(open, answer)
      else if (isAsyncIterable(answer)) await this.#stream(open, answer)
      else if (answer === null || answer === undefined) await this.#leaveToSender(open)
      else if (open.isEnded) throw new InferenceError(this.#text('it sent a response and returned one, too'))
      else this.#respond(open, answer, true)
    } catch (reason) {
      this.#fail(open, reason)
    }
  }

  async #stream(open: Open, responses: AsyncIterable<unknown>): Promise<void> {
    if (!this.#task.isDecoupled) throw new InferenceError(this.#text(notDecoupledText))
    for await (const response of responses) {
      // To leave the loop runs the `finally` of the generator.
      if (open.isEnded) return
      if (open.request.isCancelled) throw new InferenceError('', 'CANCELLED')
      if (response instanceof Reschedule) {
        this.#reschedule(open, response)
        return
      }
      if (response instanceof Error) this.#fail(open, response, false)
      else this.#respond(open, response, false)
      // During this wait the Worker can receive a cancellation, also when the generator itself never waits.
      if (!open.window.isOpen) await open.window.ready()
    }
    if (!open.isEnded) this.#respond(open, null, true)
  }

  async #leaveToSender(open: Open): Promise<void> {
    if (open.isEnded || this.#task.isDecoupled) return
    if (!open.request.isSenderTaken) throw new InferenceError(this.#text(noAnswerText))
    await open.ended
  }

  /** The scheduler gets the request back. When the request comes again, it has another key. */
  #reschedule(open: Open, { states }: Reschedule): void {
    if (open.isEnded) throw new InferenceError(this.#text('it answered a request and rescheduled it, too'))
    const { outputs } = checkResponse(states, this.#expected, this.#task.isBatching, [])
    this.#end(open)
    const { key } = open
    this.#outbox.addWithTensors(outputs, (tensors) => ({ kind: 'reschedule', key, outputs: tensors }))
  }

  #respond(open: Open, response: unknown, isFinal: boolean): void {
    if (open.isEnded) return
    const isFlagOnly = response === null
    try {
      const { outputs, parameters } = isFlagOnly
        ? { outputs: [], parameters: null }
        : checkResponse(response, this.#expected, this.#task.isBatching, open.request.requestedOutputs)
      if (isFinal) this.#end(open)
      else open.window.sent(outputs.reduce((sum, { bytes }) => sum + bytes.byteLength, 0))
      const { key } = open
      this.#outbox.addWithTensors(outputs, (tensors) => ({
        kind: 'response',
        key,
        outputs: tensors,
        parameters,
        error: null,
        isFinal,
        isFlagOnly,
      }))
    } catch (reason) {
      this.#fail(open, new InferenceError(this.#text((reason as Error).message)))
    }
  }

  /** An InferenceError is an answer; any other error is a bug of the model, and its stack goes to the log. */
  #fail(open: Open, reason: unknown, isFinal = true, isOwn = true): void {
    if (open.isEnded) return
    if (isFinal) this.#end(open)
    else open.window.sent(0)
    const isCancel = open.request.isCancelled && (isCancelled(reason) || isAbort(reason))
    const isMeant = reason instanceof InferenceError
    if (!isMeant && !isCancel) this.#logFault(reason)
    const error = isCancel
      ? ({ code: 'CANCELLED', message: '', isOwn } as const)
      : {
          code: isMeant ? reason.code : ('INTERNAL' as const),
          message: isMeant ? reason.message : this.#fault(reason),
          isOwn,
        }
    const { key } = open
    this.#outbox.add({ kind: 'response', key, outputs: [], parameters: null, error, isFinal, isFlagOnly: false })
  }

  #end(open: Open): void {
    open.isEnded = true
    open.window.close()
    this.#open.delete(open.key)
    open.end()
  }

  #logFault(reason: unknown): void {
    const fields = { stack: reason instanceof Error ? (reason.stack ?? '') : '' }
    this.#outbox.add({ kind: 'log', level: 'error', message: `execute failed: ${errorText(reason)}`, fields })
  }

  #fault(reason: unknown): string {
    return this.#text(errorText(reason))
  }

  #text(message: string): string {
    const instance = this.#task.place.modelInstanceName
    return `Failed to process the request(s) for model '${instance}', message: ${message}`
  }
}

const noAnswerText =
  'it returned nothing for a request and did not take its sender; return a response, or answer with request.sender'
const notDecoupledText =
  'it streams responses but is not decoupled; set model_transaction_policy { decoupled: true } in config.pbtxt'

const oneStreamText = (count: number): string =>
  `execute returned one stream for ${count} requests; return an array with one for each, or export infer(request)`

const countText = (requests: number, responses: number): string =>
  'Number of InferenceResponse objects do not match the number of InferenceRequest objects. ' +
  `InferenceRequest(s) size is:${requests}, and InferenceResponse(s) size is:${responses}\n`

export const errorText = (reason: unknown): string =>
  reason instanceof Error ? `${reason.name}: ${reason.message}` : `it threw ${describe(reason)}: ${String(reason)}`

const isAbort = (reason: unknown): boolean => reason instanceof Error && reason.name === 'AbortError'
const isCancelled = (reason: unknown): boolean => reason instanceof InferenceError && reason.code === 'CANCELLED'

const isAsyncIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value
