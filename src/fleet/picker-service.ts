// Envoy's ext_proc: one stream per request, over which Envoy shows the head of the request, and is told which server gets it.

import type { Clock } from '../base/clock.ts'
import { ServerError } from '../base/server-error.ts'
import type { MessageValue } from '../protobuf/message-codec.ts'
import type { GrpcFrontEnd } from '../ports/grpc/grpc-method.ts'
import type { PortCall } from '../ports/grpc/port-call.ts'
import { GrpcStatus, statusCodes } from '../transport/grpc/grpc-status.ts'
import { metadataValue } from '../transport/grpc/grpc-transport.ts'
import type { EndpointPicker, PickedCall } from './endpoint-picker.ts'
import { endpointText } from './fleet-member.ts'
import { destinationKey, destinationNamespace, zoneHeader } from './pick-destination.ts'
import { factsOfBody, factsOfPath, type RequestFacts } from './request-peek.ts'
import { decodeXds, encodeXds } from './xds-codec.ts'

/** Requests that are under way through all Envoys. More go on without a choice. */
const mostRequests = 50_000
/** So much of a body is kept until it names the model. */
const mostHeadBytes = 64 * 1024
/** Pieces of one body, which may be empty; and bytes of all bodies together. */
const mostHeldPieces = 256
const mostHeldBytes = 64 * 1024 * 1024

const path = '/envoy.service.ext_proc.v3.ExternalProcessor/Process'
const done = new GrpcStatus(statusCodes.OK, '')
const full = new GrpcStatus(
  statusCodes.RESOURCE_EXHAUSTED,
  `${mostRequests} requests are under way, and no more are looked at`,
)

type Headers = { readonly headers?: { readonly headers: readonly HeaderValue[] }; readonly endOfStream: boolean }
type HeaderValue = { readonly key: string; readonly value: string; readonly rawValue: Buffer }
type Body = { readonly body: Buffer; readonly endOfStream: boolean }

export function pickerService(picker: EndpointPicker, clock: Clock): GrpcFrontEnd {
  const calls = new Set<PortCall>()
  const held = { bytes: 0 }
  const begin = (call: PortCall): void => {
    if (calls.size >= mostRequests) {
      call.finish(full)
      return
    }
    calls.add(call)
    call.allowLargeMessages()
    const request = new PickedRequest(call, picker, clock, held)
    call.onClosed = () => {
      calls.delete(call)
      request.close()
    }
    call.onHalfClose = () => call.finish(done)
    call.onMessage = (message) => {
      try {
        request.take(decodeXds('envoy.service.ext_proc.v3.ProcessingRequest', message))
      } catch (reason) {
        call.finish(GrpcStatus.of(ServerError.from(reason)))
      }
      call.messageDone(message)
    }
  }
  return {
    methods: [{ path, api: 'inference', begin }],
    drain: (status) => {
      for (const call of calls) call.finish(status)
    },
  }
}

/** Over HTTP 500, 502, 503 and 504; over gRPC UNKNOWN, INTERNAL, UNAVAILABLE and DATA_LOSS, where the headers are the whole answer. A deadline is the client's. */
const failures = /^50[0234]$/
const grpcFailures: ReadonlySet<string> = new Set(['2', '13', '14', '15'])

function isFailure({ headers }: Headers): boolean {
  return (headers?.headers ?? []).some(({ key, value, rawValue }) => {
    const text = rawValue.length > 0 ? rawValue.toString('latin1') : value
    return (key === ':status' && failures.test(text)) || (key === 'grpc-status' && grpcFailures.has(text))
  })
}

/** One request on its way through Envoy. */
class PickedRequest {
  readonly #call: PortCall
  readonly #picker: EndpointPicker
  readonly #clock: Clock
  /** Of the Envoy. */
  readonly #zone: string
  #path = ''
  #contentType = ''
  /** True: Envoy sends the body in pieces, gets them back, and waits for the headers meanwhile. */
  #isDuplex = false
  #hasPicked = false
  #held: Body[] = []
  #heldBytes = 0
  /** Of all requests. */
  readonly #allHeld: { bytes: number }
  #underWay: PickedCall | null = null

  constructor(call: PortCall, picker: EndpointPicker, clock: Clock, allHeld: { bytes: number }) {
    this.#allHeld = allHeld
    this.#call = call
    this.#picker = picker
    this.#clock = clock
    this.#zone = metadataValue(call.metadata, zoneHeader) ?? ''
  }

  close(): void {
    this.#forget()
    this.#underWay?.ended()
  }

  take(message: MessageValue): void {
    const config = message['protocolConfig'] as { requestBodyMode?: string } | undefined
    if (config?.requestBodyMode === 'FULL_DUPLEX_STREAMED') this.#isDuplex = true
    if (message['requestHeaders'] !== undefined) this.#takeHeaders(message['requestHeaders'] as Headers)
    else if (message['requestBody'] !== undefined) this.#takeBody(message['requestBody'] as Body)
    else if (message['requestTrailers'] !== undefined) this.#takeTrailers()
    else if (message['responseHeaders'] !== undefined) {
      this.#underWay?.answered(isFailure(message['responseHeaders'] as Headers))
      this.#send({ responseHeaders: {} })
    } else if (message['responseBody'] !== undefined) this.#send({ responseBody: {} })
    else if (message['responseTrailers'] !== undefined) this.#send({ responseTrailers: {} })
  }

  #takeHeaders({ headers, endOfStream }: Headers): void {
    for (const { key, value, rawValue } of headers?.headers ?? []) {
      const text = rawValue.length > 0 ? rawValue.toString('utf8') : value
      if (key === ':path') this.#path = text
      else if (key === 'content-type') this.#contentType = text
    }
    const facts = factsOfPath(this.#path)
    if (endOfStream || (facts.model !== '' && !this.#isDuplex)) {
      // A body that comes later may name a sequence: it is looked at then, and its choice takes the place of this one.
      this.#send({ requestHeaders: { response: this.#choose(facts) }, ...this.#metadata })
    } else if (!this.#isDuplex) this.#send({ requestHeaders: {} })
  }

  #takeBody(piece: Body): void {
    if (!this.#isDuplex) {
      const facts = factsOfBody(this.#path, this.#contentType, piece.body.subarray(0, mostHeadBytes))
      this.#send({ requestBody: { response: this.#choose(facts) }, ...this.#metadata })
      return
    }
    // The message is given back to the transport after this call: what is held is a copy.
    this.#held.push({ body: Buffer.from(piece.body), endOfStream: piece.endOfStream })
    this.#heldBytes += piece.body.length
    this.#allHeld.bytes += piece.body.length
    if (!this.#hasPicked) {
      const head = Buffer.concat(this.#held.map(({ body }) => body), Math.min(this.#heldBytes, mostHeadBytes)) // prettier-ignore
      const facts = factsOfBody(this.#path, this.#contentType, head)
      if (facts.model === '' && !piece.endOfStream && this.#mayHoldMore) return
      this.#send({ requestHeaders: { response: this.#choose(facts) }, ...this.#metadata })
    }
    this.#giveBack()
  }

  #takeTrailers(): void {
    if (this.#isDuplex && !this.#hasPicked) {
      this.#send({ requestHeaders: { response: this.#choose(factsOfPath(this.#path)) }, ...this.#metadata })
      this.#giveBack()
    }
    this.#send({ requestTrailers: {} })
  }

  #giveBack(): void {
    for (const { body, endOfStream } of this.#held) {
      this.#send({ requestBody: { response: { bodyMutation: { streamedResponse: { body, endOfStream } } } } })
    }
    this.#forget()
  }

  get #mayHoldMore(): boolean {
    return this.#heldBytes < mostHeadBytes && this.#held.length < mostHeldPieces && this.#allHeld.bytes < mostHeldBytes
  }

  #forget(): void {
    this.#allHeld.bytes -= this.#heldBytes
    this.#heldBytes = 0
    this.#held = []
  }

  /** The dynamic metadata of the choice; it goes with the message that tells the choice. */
  #metadata: MessageValue = {}

  #choose(facts: RequestFacts): MessageValue {
    this.#hasPicked = true
    const { members } = this.#picker.pick(facts, this.#zone)
    const isGrpc = this.#contentType.startsWith('application/grpc')
    const endpoints = members.flatMap(({ address, httpPort, grpcPort }) => {
      const port = isGrpc ? grpcPort : httpPort
      return port === null ? [] : [endpointText(address, port)]
    })
    const [first] = members
    if (first === undefined || endpoints.length === 0) return {}
    this.#underWay?.ended()
    this.#underWay = this.#picker.begin(first, this.#clock, facts.isStream)
    const value = endpoints.join(',')
    const inner = { fields: new Map([[destinationKey, { stringValue: value }]]) }
    this.#metadata = { dynamicMetadata: { fields: new Map([[destinationNamespace, { structValue: inner }]]) } }
    const header = { key: destinationKey, rawValue: Buffer.from(value) }
    return { headerMutation: { setHeaders: [{ header, appendAction: 'OVERWRITE_IF_EXISTS_OR_ADD' }] } }
  }

  #send(value: MessageValue): void {
    const bytes = encodeXds('envoy.service.ext_proc.v3.ProcessingResponse', value)
    this.#call.send({ parts: [bytes], byteLength: bytes.length }, null)
  }
}
