/// <reference lib="esnext.disposable" preserve="true" />
import { once } from 'node:events'
import { wireRequestOf, type Compression, type InferOptions, type Inputs } from '../infer-request.ts'
import type { InferResult } from '../infer-result.ts'
import { InferenceError } from '../inference-error.ts'
import type { GrpcCall } from './grpc-channel.ts'
import { encodeInferRequest, inferResultOf } from './infer-message.ts'
import { frameOf, messagesOf } from './message-frames.ts'
import { decodeMessage, type MessageValue } from './json-messages.ts'

/** One message of a stream: an error is about one request, and the stream goes on. */
export type StreamAnswer =
  | { readonly id: string; readonly result: InferResult; readonly error: null }
  | { readonly id: string; readonly result: null; readonly error: InferenceError }

export type StreamInferOptions = Omit<InferOptions, 'signal' | 'timeoutMs' | 'headers' | 'encoding' | 'compression'> & {
  /** Say when a decoupled model has answered all it will, even if with nothing: `result.isFinal`, without outputs. */
  readonly emptyFinalResponse?: boolean
}

/**
 * Many requests and their answers on one call, to any models. Answers of ordinary models come in the order of the
 * requests, those of decoupled ones as they are made: match them by `id`. To be iterated once.
 */
export class InferStream implements AsyncIterable<StreamAnswer> {
  readonly #call: GrpcCall
  readonly #compression: Compression
  readonly #answers: AsyncGenerator<StreamAnswer, void, undefined>
  #lastWrite: Promise<void> = Promise.resolve()

  constructor(call: GrpcCall, compression: Compression, maxMessageBytes: number) {
    this.#call = call
    this.#compression = compression
    this.#answers = this.#read(maxMessageBytes)
  }

  /** Resolves when the request is on its way: waiting for it keeps a slow server from being flooded. */
  send(model: string, inputs: Inputs, options: StreamInferOptions = {}): Promise<void> {
    const { emptyFinalResponse, ...rest } = options
    const request = wireRequestOf(model, inputs, rest)
    const parameters =
      emptyFinalResponse === true
        ? { ...request.parameters, triton_enable_empty_final_response: true }
        : request.parameters
    const parts = encodeInferRequest({ ...request, parameters })
    const write = this.#lastWrite.then(async () => this.#write(await frameOf(parts, this.#compression)))
    this.#lastWrite = write.catch(() => undefined)
    return write
  }

  /** No more requests; the answers that are outstanding still come. */
  async end(): Promise<void> {
    await this.#lastWrite
    if (!this.#call.stream.writableEnded) this.#call.stream.end()
  }

  /** Ends the stream and every request on it. */
  cancel(): void {
    this.#call.cancel()
  }

  [Symbol.asyncIterator](): AsyncIterator<StreamAnswer, void, undefined> {
    return this.#answers
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cancel()
  }

  async #write(frame: Buffer): Promise<void> {
    const { stream } = this.#call
    if (stream.writableEnded) throw InferenceError.ofArgument('the stream was ended: open another one')
    if (stream.closed || stream.destroyed)
      throw this.#call.error ?? new InferenceError('UNREACHABLE', 'the stream is over')
    if (stream.write(frame)) return
    // A stream that breaks never drains.
    const stop = new AbortController()
    try {
      await Promise.race([
        once(stream, 'drain', { signal: stop.signal }),
        once(stream, 'close', { signal: stop.signal }),
      ]).catch(() => null)
    } finally {
      stop.abort()
    }
  }

  async *#read(maxMessageBytes: number): AsyncGenerator<StreamAnswer, void, undefined> {
    const call = this.#call
    try {
      try {
        for await (const bytes of messagesOf(call.stream, call.encoding, maxMessageBytes)) yield streamAnswerOf(bytes)
      } catch (reason) {
        // When the stream itself broke, its status says more than the exception.
        throw reason instanceof InferenceError ? reason : (call.error ?? reason)
      }
      const { error } = call
      if (error !== null) throw error
    } finally {
      call.cancel()
    }
  }
}

function streamAnswerOf(bytes: Uint8Array): StreamAnswer {
  const message = decodeMessage('ModelStreamInferResponse', bytes)
  const response = message['infer_response'] as MessageValue | undefined
  const id = (response?.['id'] ?? '') as string
  const errorMessage = message['error_message'] as string
  if (errorMessage !== '' || response === undefined) {
    return { id, result: null, error: new InferenceError('UNKNOWN', errorMessage || 'an empty message') }
  }
  return { id, result: inferResultOf(response), error: null }
}
