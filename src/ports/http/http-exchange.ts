import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import type { HeldMemory } from '../../exchange/held-memory.ts'
import { InferenceExchange, type ArrivalNames, type ExchangeParts } from '../../exchange/inference-exchange.ts'
import { sendPiece } from '../../exchange/send-piece.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { EncodedInferResponse } from '../../protocol/infer-response-writer.ts'
import { headerOf, jsonType, plainType, type ResponseStream } from '../../transport/http1/http-message.ts'
import { requestEncoding, type BodyInflater } from './content-encoding.ts'
import { errorResponse, jsonResponse } from './error-response.ts'
import type { JsonOffload, Writer, WriterContext } from './json-offload.ts'
import { copyOutputs } from './large-json.ts'
import { MarkedRequest } from './marked-request.ts'
import type { PortRequest } from './port-request.ts'
import { TracedRequest } from './traced-request.ts'

const arrivalNames: ArrivalNames = ['HTTP_RECV_START', 'HTTP_RECV_END']

/** An inference that came by HTTP: the facts of its request, its disconnect and the stamps of its answer. */
export abstract class HttpExchange extends InferenceExchange {
  protected readonly http: PortRequest
  #answering: PortRequest | null = null
  /** The client has not read the pieces that it was sent. */
  isBehind = false

  constructor(parts: ExchangeParts, http: PortRequest, caller: Caller, answersOnce: boolean) {
    super(parts, caller, answersOnce)
    this.http = http
    http.onDisconnect = () => this.cancel()
  }

  get protocol(): 'http' {
    return 'http'
  }
  get path(): string {
    return this.http.target
  }
  get peer(): string {
    return this.http.remoteAddress
  }
  header(name: string): string | null {
    return headerOf(this.http.headers, name)
  }

  /** Without `Content-Length` the length of a body is known when all of it is there. */
  protected override get uncountedBytes(): number {
    return headerOf(this.http.headers, 'content-length') === null ? this.http.body.length : 0
  }

  protected override get memory(): HeldMemory {
    return this.http.memory
  }

  protected override get receivedBody(): Buffer {
    return this.http.body
  }

  protected get arrivalNames(): ArrivalNames {
    return arrivalNames
  }

  protected override started(request: InferenceRequest): void {
    this.http.noteInference?.(request, this.version.version)
  }

  protected override replaced(request: InferenceRequest): void {
    this.http.noteInference?.(request, this.version.version)
  }

  /** Throws INVALID_ARG for a body that is compressed. */
  protected requirePlainBody(): void {
    if (requestEncoding(this.header('content-encoding')) === 'identity') return
    throw ServerError.withoutStack('INVALID_ARG', "Unsupported content-encoding, only 'identity' is supported.")
  }

  /** Calls `then` with the body as it was before it was compressed, or refuses the request. */
  protected inflate(inflater: BodyInflater, then: (body: Buffer) => void): void {
    const { body, memory } = this.http
    inflater.inflate(body, memory, (error, inflated) => {
      if (error === null) then(inflated)
      else this.refuse(error)
    })
  }

  /** The request to answer. Read this before `write` or `fail` returns: from then on the trace waits for the answer. */
  protected get answering(): PortRequest {
    this.#answering ??= this.#answerable()
    return this.#answering
  }

  #answerable(): PortRequest {
    const trace = this.request?.trace ?? null
    const http = trace === null ? this.http : new TracedRequest(this.http, trace, this.parts.clock)
    const { marks } = this
    const load = this.loadHeader('text')
    if (marks === null && load === null) return http
    return new MarkedRequest(http, [...(marks ?? []), ...(load ?? [])])
  }

  // Errors as most protocols tell them: JSON with the one key `error`.
  protected override refused(error: ServerError): void {
    this.http.respond(errorResponse(error, jsonType))
  }

  protected override fail(error: ServerError, _isFinal?: boolean): void {
    this.answering.respond(errorResponse(error, jsonType))
  }

  /** Sends a piece of an answer. While the client does not read, the model is paused. */
  protected sendPiece(stream: ResponseStream, piece: Uint8Array): void {
    sendPiece(this, stream, stream.unreadBytes, () => stream.write(piece))
  }

  giveUp(unreadBytes: number): void {
    this.cancel()
    this.overrun?.(unreadBytes)
  }

  protected override caughtUp(): void {
    if (!this.isBehind) super.caughtUp()
  }

  /** Other requests are served while a thread writes this answer. */
  protected writeLater<W extends Writer>(
    offload: JsonOffload,
    writer: W,
    response: InferenceResponse,
    context: WriterContext<W>,
    send: (http: PortRequest, response: InferenceResponse, encoded: EncodedInferResponse) => void,
  ): void {
    const http = this.answering
    this.encodeLater(offload, writer, response, context, (error, encoded) => {
      if (encoded !== null) send(http, response, encoded)
      else if (error === gone) dropAnswer(http)
      else this.fail(this.told(error), true)
    })
  }

  /** Releases the answer. `done` is called once, later, unless this throws for want of room. */
  protected encodeLater<W extends Writer>(
    offload: JsonOffload,
    writer: W,
    response: InferenceResponse,
    context: WriterContext<W>,
    done: (error: unknown, encoded: EncodedInferResponse | null) => void,
  ): void {
    const { http } = this
    let bytes = 0
    for (const output of response.outputs) bytes += output.bytes.length
    offload.requireRoom(bytes)
    let isGone = false
    http.onDisconnect = () => {
      isGone = true
      this.cancel()
    }
    const ended = (error: unknown, encoded: EncodedInferResponse | null): void => {
      http.onDisconnect = () => this.cancel()
      done(error, encoded)
    }
    copyOutputs(response.outputs, context, (outputs) => {
      response.release()
      if (isGone) {
        ended(gone, null)
        return
      }
      try {
        const job = offload.write(writer, outputs, response.parameters, context, ended)
        http.onDisconnect = () => {
          this.cancel()
          job.cancel()
          ended(gone, null)
        }
      } catch (reason) {
        ended(reason, null)
      }
    })
  }
}

/** Sends an answer that is one text. The text is a copy of the outputs, so their memory is not needed any more. */
export function sendText(http: PortRequest, response: InferenceResponse, { head }: EncodedInferResponse): void {
  response.release()
  http.respond(jsonResponse(head))
}

const gone = ServerError.withoutStack('CANCELLED', 'Request Cancelled')

/** No client reads this answer, but a trace waits for the end of every answer. */
const dropAnswer = (http: PortRequest): void =>
  http.respond(errorResponse(ServerError.withoutStack('CANCELLED', ''), plainType))
