import type { Clock } from '../../base/clock.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { Instance, InstanceSpec } from '../../model/backend.ts'
import type { Batch } from '../../model/batch.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { malformed, messageIn, upstreamError, upstreamOutputs } from './upstream-answer.ts'
import { upstreamCall, type UpstreamCall } from './upstream-request.ts'

export type Upstream = {
  /** Without a slash at its end. */
  readonly url: string
  /** '' : the upstream wants none. */
  readonly key: string
  /** As the upstream names it. */
  readonly model: string
  readonly timeoutMs: number
  /** Calls of one instance that are under way at once. */
  readonly maxConcurrent: number
}

/** What an upstream may answer at once, and in one event. */
const mostAnswerBytes = 64 * 1024 * 1024
const mostEventBytes = 4 * 1024 * 1024
const mostErrorBytes = 64 * 1024

/** Sends each request on to the upstream. Answers go to the client as they come. */
export class UpstreamInstance implements Instance {
  readonly name: string
  readonly isReady = true
  readonly #clock: Clock
  readonly #upstream: Upstream
  readonly #running = new Set<AbortController>()
  /** The batch that was taken last, while there is no room for another call. */
  #held: Batch | null = null

  constructor(clock: Clock, spec: InstanceSpec, upstream: Upstream) {
    this.#clock = clock
    this.name = spec.name
    this.#upstream = upstream
  }

  execute(batch: Batch): void {
    const startNs = batch.startNs(this.#clock)
    for (const request of batch.requests) {
      request.computeStartNs = startNs
      request.computeInputEndNs = startNs
      void this.#run(request)
    }
    if (this.#running.size < this.#upstream.maxConcurrent) batch.executed()
    else this.#held = batch
  }

  async close(): Promise<void> {
    for (const call of this.#running) call.abort()
    this.#goOn()
  }

  /** There is room again: the instance takes the next batch. */
  #goOn(): void {
    const held = this.#held
    this.#held = null
    held?.executed()
  }

  async #run(request: InferenceRequest): Promise<void> {
    const { timeoutMs } = this.#upstream
    const controller = new AbortController()
    let isLate = false
    let resume: (() => void) | null = null
    const stopTimer = this.#clock.after(timeoutMs * 1e6, () => {
      isLate = true
      controller.abort()
    })
    this.#running.add(controller)
    request.handOver({
      onCancel: () => controller.abort(),
      onFlowChange: ({ isPaused }) => {
        if (!isPaused) resume?.()
      },
    })
    const flow = (): Promise<void> | null =>
      request.isPaused && !controller.signal.aborted
        ? new Promise((resolve) => {
            resume = resolve
            controller.signal.addEventListener('abort', () => resolve(), { once: true })
          })
        : null
    try {
      await this.#exchange(request, controller.signal, flow)
    } catch (reason) {
      if (request.isCancelled) request.failCancelled()
      else request.fail(isLate ? tooLate(timeoutMs) : failureOf(reason))
    }
    stopTimer()
    this.#running.delete(controller)
    this.#goOn()
  }

  async #exchange(request: InferenceRequest, signal: AbortSignal, flow: () => Promise<void> | null): Promise<void> {
    const { url, key, model } = this.#upstream
    const limitName = new URL(url).hostname.endsWith('openai.com') ? 'max_completion_tokens' : 'max_tokens'
    const call = upstreamCall(request, model, limitName)
    const answer = await fetch(url + call.path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...(key === '' ? {} : { Authorization: `Bearer ${key}` }) },
      body: JSON.stringify(call.body),
      // A redirect would take the key elsewhere.
      redirect: 'error',
      signal,
    })
    if (!answer.ok) {
      const body = await textOf(answer, mostErrorBytes, true)
      throw upstreamError(answer.status, body, answer.headers.get('retry-after'))
    }
    if (call.isStream) await this.#pass(request, call, answer, flow)
    else {
      const outputs = upstreamOutputs(call.kind, parsed(await textOf(answer, mostAnswerBytes)))
      this.#respond(request, outputs, true)
    }
  }

  /** Each event becomes an answer. The last one waits for the count of tokens, which comes behind it. */
  async #pass(
    request: InferenceRequest,
    call: UpstreamCall,
    answer: Response,
    flow: () => Promise<void> | null,
  ): Promise<void> {
    let last: Tensor[] | null = null
    for await (const data of eventsOf(answer)) {
      if (data === '[DONE]') break
      const json = parsed(data)
      const { error } = json as { readonly error?: unknown }
      if (error !== undefined && error !== null) throw ServerError.withoutStack('INTERNAL', messageIn(data))
      const outputs = upstreamOutputs(call.kind, json)
      if (last !== null && !outputs.some(({ name }) => name === 'text_output')) last.push(...outputs)
      else {
        if (last !== null) this.#respond(request, last, false)
        last = outputs.length === 0 ? last : outputs
      }
      const wait = flow()
      if (wait !== null) await wait
    }
    if (last === null) throw malformed('a stream without text')
    this.#respond(request, last, true)
  }

  #respond(request: InferenceRequest, outputs: readonly Tensor[], isFinal: boolean): void {
    const nowNs = this.#clock.nowNs()
    request.computeOutputStartNs = nowNs
    request.computeEndNs = nowNs
    const { requestedOutputs } = request
    const wanted =
      requestedOutputs.length === 0 ? outputs : outputs.filter(({ name }) => requestedOutputs.includes(name))
    request.respond(InferenceResponse.of(wanted, { isFinal }))
  }
}

const tooLate = (timeoutMs: number): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `the upstream did not end its answer within ${timeoutMs} ms ('upstream_timeout_ms')`,
  )

function failureOf(reason: unknown): ServerError {
  if (reason instanceof ServerError) return reason
  const cause = reason instanceof Error && reason.cause !== undefined ? `: ${messageOf(reason.cause)}` : ''
  return ServerError.withoutStack('UNAVAILABLE', `the upstream cannot be reached: ${messageOf(reason)}${cause}`)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw malformed('JSON')
  }
}

/** The body, up to a bound. `isCut`: what is beyond the bound is left out, not refused. */
async function textOf(answer: Response, mostBytes: number, isCut = false): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    bytes += (chunk as Uint8Array).length
    if (bytes > mostBytes) {
      if (isCut) break
      throw malformed(`more than ${mostBytes} bytes`)
    }
    text += decoder.decode(chunk as Uint8Array, { stream: true })
  }
  return text + decoder.decode()
}

/** The `data` of server-sent events. */
async function* eventsOf(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let held = ''
  for await (const chunk of answer.body ?? []) {
    held += decoder.decode(chunk as Uint8Array, { stream: true })
    const lines = held.split(/\r?\n/)
    held = lines.pop() ?? ''
    if (held.length > mostEventBytes) throw malformed(`an event of more than ${mostEventBytes} bytes`)
    for (const line of lines) if (line.startsWith('data:')) yield line.slice('data:'.length).trim()
  }
  if (held.startsWith('data:')) yield held.slice('data:'.length).trim()
}
