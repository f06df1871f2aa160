// CloudEvents 1.0 around a prediction. A binary event has its attributes in headers, a structured one has them in the body, with
// the request under `data`. The answer is an event of the same mode.

import { randomUUID } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import { inOwnWords, WordedError } from '../../model/worded-error.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { EventOptions } from '../../ports/http/http-options.ts'
import { WrappedRequest } from '../../ports/http/wrapped-request.ts'
import { char, JsonScanner } from '../../protocol/json-scanner.ts'
import { headerOf, HttpResponse } from '../../transport/http1/http-message.ts'

const structuredType = 'application/cloudevents+json'
const batchType = 'application/cloudevents-batch+json'
/** A structured event is searched for its data. Larger requests come as binary events. */
const mostStructuredBytes = 1024 * 1024
/** Attributes and extensions of an event. Each is a text and a view. */
const mostMembers = 1024
/** An event has all of these. A request with a header for each of them is a binary event, as in KServe's own server. */
const requiredAttributes = ['specversion', 'source', 'type', 'id']
/** A plain JSON body with all of these members is taken for an event. */
const eventMembers = [...requiredAttributes, 'time', 'data']

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

/** What the event of an answer is made of. */
type EventParts = { readonly modelName: string; readonly clock: Clock; readonly options: EventOptions }

/** An attribute by its name, with its value as JSON in a structured event and as it is in a header. */
type Attribute = readonly [name: string, value: string]

/** The request inside an event; the request itself when it is no event. Throws INVALID_ARG for an event without data. */
export function withoutCloudEvent(http: PortRequest, parts: EventParts): PortRequest {
  const given = headerOf(http.headers, 'content-type') ?? ''
  const type = (given.split(';', 1)[0] ?? '').trim().toLowerCase()
  if (type === structuredType) {
    const members = inOwnWords(() => structuredMembers(http.body))
    return new EventRequest(http, parts, dataOf(members), parts.options.isMerged ? keptMembers(members) : [])
  }
  if (type === batchType) throw invalid('a batch of CloudEvents is not taken: send each event by itself')
  const version = headerOf(http.headers, 'ce-specversion')
  if (version === null) return mayBeEvent(http.body) ? new DataRequest(http) : http
  if (requiredAttributes.some((name) => headerOf(http.headers, `ce-${name}`) === null)) return http
  if (version !== '1.0' && version !== '0.3') {
    throw invalid(`Cloud Event Exceptions: Found invalid specversion ${version.slice(0, 100)}`)
  }
  return new EventRequest(http, parts, null, parts.options.isMerged ? keptHeaders(http.headers) : [])
}

/** Attributes that an answer has of its own, and the data. */
const ownAttributes: ReadonlySet<string> = new Set(
  ['specversion', 'id', 'source', 'type', 'time', 'datacontenttype', 'data', 'data_base64'], // prettier-ignore
)

const keptMembers = (members: ReadonlyMap<string, Buffer>): Attribute[] =>
  [...members].flatMap(([name, value]) => (ownAttributes.has(name) ? [] : [[name, value.toString()] as const]))

function keptHeaders(headers: readonly string[]): Attribute[] {
  const kept: Attribute[] = []
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const [header = '', value = ''] = [headers[i]?.toLowerCase(), headers[i + 1]]
    const isKept = header.startsWith('ce-') && !ownAttributes.has(header.slice(3)) && /^[\x20-\x7e]*$/.test(value)
    if (isKept) kept.push([header.slice(3), value])
  }
  return kept
}

const quote = 0x22

/** False for nearly every body that is no event: its first member is `instances` or `inputs`. HOT. */
function mayBeEvent(body: Buffer): boolean {
  const first = body.indexOf(quote)
  const isPlain = first < 0 || (body[first + 1] === 0x69 && body[first + 2] === 0x6e)
  return !isPlain && body.length <= mostStructuredBytes && body.includes('"specversion"')
}

function structuredMembers(body: Buffer): ReadonlyMap<string, Buffer> {
  if (body.length > mostStructuredBytes) {
    const what = `a structured CloudEvent of ${body.length} bytes is too large, at most ${mostStructuredBytes} are read`
    throw invalid(`${what}: send a binary event, with the attributes in headers`)
  }
  const members = membersOf(body)
  if (members === null) throw invalid('a structured CloudEvent must be a JSON object')
  const missing = requiredAttributes.find((name) => !members.has(name))
  if (missing !== undefined) throw invalid(`the CloudEvent has no '${missing}'`)
  return members
}

/** The value of `data` in a structured event, or the bytes of `data_base64`. */
function dataOf(members: ReadonlyMap<string, Buffer>): Buffer {
  const data = members.get('data') ?? decoded(members.get('data_base64'))
  if (data === null) throw invalid("the CloudEvent has no 'data'")
  return data
}

/** The text of each member of an object; null for what is no object. Throws for what is no JSON. */
function membersOf(body: Buffer): Map<string, Buffer> | null {
  const scanner = new JsonScanner(body)
  if (scanner.startDocument() !== char.leftBrace) return null
  const members = new Map<string, Buffer>()
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    const name = scanner.stringValue()
    const start = scanner.position
    scanner.skipValue()
    members.set(name, body.subarray(start, scanner.position))
    if (members.size > mostMembers) throw invalid(`a CloudEvent has at most ${mostMembers} members`)
  }
  scanner.endDocument()
  return members
}

function decoded(text: Buffer | undefined): Buffer | null {
  if (text === undefined || text[0] !== quote) return null
  const value = JSON.parse(text.toString()) as string
  if (value.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(value)) {
    throw invalid("the CloudEvent's 'data_base64' is no base64")
  }
  return Buffer.from(value, 'base64')
}

/** A structured event that calls itself plain JSON. As KServe's own server does, the answer is no event. */
class DataRequest extends WrappedRequest {
  readonly #data: Buffer

  constructor(inner: PortRequest) {
    super(inner)
    this.#data = inner.body
    try {
      const members = membersOf(inner.body)
      const isEvent = members !== null && eventMembers.every((name) => members.has(name))
      if (isEvent) this.#data = members.get('data') ?? inner.body
    } catch (reason) {
      // The endpoint tells what is wrong with the JSON.
      if (!(reason instanceof WordedError || reason instanceof ServerError)) throw reason
    }
  }

  override get body(): Buffer {
    return this.#data
  }
}

class EventRequest extends WrappedRequest {
  readonly #parts: EventParts
  /** Null: a binary event, whose body is the data. */
  readonly #data: Buffer | null
  /** What the answer keeps of the request. */
  readonly #kept: readonly Attribute[]

  constructor(inner: PortRequest, parts: EventParts, data: Buffer | null, kept: readonly Attribute[]) {
    super(inner)
    this.#parts = parts
    this.#data = data
    this.#kept = kept
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
    const { modelName, clock, options } = this.#parts
    const attributes = {
      specversion: '1.0',
      id: randomUUID(),
      source: options.source === '' ? `io.kserve.inference.${modelName}` : options.source,
      type: options.type,
      time: new Date(clock.wallMs()).toISOString(),
    }
    if (this.#data === null) {
      const named = [...Object.entries(attributes), ...this.#kept].flatMap(([name, value]) => [`ce-${name}`, value])
      const all = [...headers, ...named]
      this.inner.respond(new HttpResponse(status, contentType, parts, { headers: all, release, closesConnection }))
      return
    }
    const head = JSON.stringify({ ...attributes, datacontenttype: contentType })
    const kept = this.#kept.map(([name, json]) => `,${JSON.stringify(name)}:${json}`).join('')
    const pieces = [Buffer.from(`${head.slice(0, -1)}${kept},"data":`), ...parts, Buffer.from('}')]
    this.inner.respond(new HttpResponse(status, structuredType, pieces, { headers, release, closesConnection }))
  }
}
