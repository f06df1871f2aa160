// CloudEvents 1.0 around a prediction. A binary event has its attributes in headers, a structured one has them in the body, with
// the request under `data`. The answer is an event of the same mode.

import { randomUUID } from 'node:crypto'
import { ServerError } from '../../base/server-error.ts'
import { WordedError } from '../../model/worded-error.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { WrappedRequest } from '../../ports/http/wrapped-request.ts'
import { char, JsonScanner } from '../../protocol/json-scanner.ts'
import { headerOf, HttpResponse } from '../../transport/http1/http-message.ts'

const structuredType = 'application/cloudevents+json'
/** A structured event is searched for its data. Larger requests come as binary events. */
const mostStructuredBytes = 1024 * 1024

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

/** The request inside an event; the request itself when it is no event. Throws INVALID_ARG for an event without data. */
export function withoutCloudEvent(http: PortRequest, modelName: string): PortRequest {
  const type = headerOf(http.headers, 'content-type') ?? ''
  if (type.startsWith(structuredType))
    return new EventRequest(
      http,
      modelName,
      inOwnWords(() => dataOf(http.body)),
    )
  return headerOf(http.headers, 'ce-specversion') === null ? http : new EventRequest(http, modelName, null)
}

/** Malformed JSON is INVALID_ARG whatever --triton-defaults says: Triton does not have this protocol. */
function inOwnWords(read: () => Buffer): Buffer {
  try {
    return read()
  } catch (reason) {
    if (!(reason instanceof WordedError)) throw reason
    throw reason.inOwnWords({ path: '', signature: null, header: () => null })
  }
}

/** The value of `data` in a structured event, or the bytes of `data_base64`. */
function dataOf(body: Buffer): Buffer {
  if (body.length > mostStructuredBytes) {
    const what = `a structured CloudEvent of ${body.length} bytes is too large, at most ${mostStructuredBytes} are read`
    throw invalid(`${what}: send a binary event, with the attributes in headers`)
  }
  const scanner = new JsonScanner(body)
  if (scanner.startDocument() !== char.leftBrace) throw invalid('a structured CloudEvent must be a JSON object')
  let data: Buffer | null = null
  let hasVersion = false
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    const name = scanner.stringValue()
    const start = scanner.position
    const isText = scanner.peek() === char.quote
    scanner.skipValue()
    if (name === 'data') data = body.subarray(start, scanner.position)
    else if (name === 'data_base64' && isText) data = Buffer.from(scanner.stringValue(), 'base64')
    else if (name === 'specversion') hasVersion = true
  }
  scanner.endDocument()
  if (!hasVersion) throw invalid("the CloudEvent has no 'specversion'")
  if (data === null) throw invalid("the CloudEvent has no 'data'")
  return data
}

class EventRequest extends WrappedRequest {
  readonly #source: string
  /** Null: a binary event, whose body is the data. */
  readonly #data: Buffer | null

  constructor(inner: PortRequest, modelName: string, data: Buffer | null) {
    super(inner)
    this.#source = `io.kserve.inference.${modelName}`
    this.#data = data
  }

  override get body(): Buffer {
    return this.#data ?? this.inner.body
  }

  override respond(response: HttpResponse): void {
    const { status, contentType, parts, headers, release, closesConnection } = response
    if (status !== 200) {
      this.inner.respond(response)
      return
    }
    const attributes = {
      specversion: '1.0',
      id: randomUUID(),
      source: this.#source,
      type: 'io.kserve.inference.response',
    }
    if (this.#data === null) {
      const named = Object.entries(attributes).flatMap(([name, value]) => [`ce-${name}`, value])
      const all = [...headers, ...named]
      this.inner.respond(new HttpResponse(status, contentType, parts, { headers: all, release, closesConnection }))
      return
    }
    const head = JSON.stringify({ ...attributes, datacontenttype: contentType })
    const pieces = [Buffer.from(`${head.slice(0, -1)},"data":`), ...parts, Buffer.from('}')]
    this.inner.respond(new HttpResponse(status, structuredType, pieces, { headers, release, closesConnection }))
  }
}
