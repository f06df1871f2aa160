// Envoy's aggregated discovery: one stream per Envoy, over which it subscribes to resources and gets them again when they change. The
// state of the world and the incremental form.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import type { MessageValue } from '../protobuf/message-codec.ts'
import type { GrpcFrontEnd } from '../ports/grpc/grpc-method.ts'
import type { PortCall } from '../ports/grpc/port-call.ts'
import { GrpcStatus, statusCodes } from '../transport/grpc/grpc-status.ts'
import { AdsStream } from './ads-stream.ts'
import { decodeXds, encodeXds } from './xds-codec.ts'
import type { XdsResources } from './xds-resources.ts'

/** Every Envoy has one stream. */
const mostStreams = 1024
/** An Envoy may refuse as often as it likes. */
const refusalEveryNs = 1e9

/** What Envoys of a zone are told; '' for those that named none. Asked for each Envoy: the same zone should give the same object. */
export type ResourcesForZone = (zone: string) => XdsResources

/** What is known of one Envoy, for people. */
export type EnvoyView = {
  readonly node: string
  /** '' where the Envoy did not say. */
  readonly zone: string
  readonly address: string
  readonly sinceMs: number
  /** What Envoy said of resources that it refused; '' when it took all. */
  readonly problem: string
}

type Form = 'DiscoveryRequest' | 'DeltaDiscoveryRequest'
const answerOf: Readonly<Record<Form, string>> = {
  DiscoveryRequest: 'envoy.service.discovery.v3.DiscoveryResponse',
  DeltaDiscoveryRequest: 'envoy.service.discovery.v3.DeltaDiscoveryResponse',
}

export class AdsService implements GrpcFrontEnd {
  readonly methods: GrpcFrontEnd['methods']
  readonly #log: Log
  readonly #clock: Clock
  readonly #streams = new Map<PortCall, { readonly stream: AdsStream; readonly sinceMs: number }>()
  #resourcesFor: ResourcesForZone
  readonly #kept = { bytes: 0 }
  #toldNs = -Infinity
  /** Refusals since the last line in the log. */
  #untold = 0

  constructor({ log, clock }: { readonly log: Log; readonly clock: Clock }, resourcesFor: ResourcesForZone) {
    this.#log = log.from('ads-service.ts')
    this.#clock = clock
    this.#resourcesFor = resourcesFor
    const service = '/envoy.service.discovery.v3.AggregatedDiscoveryService'
    this.methods = [
      { path: `${service}/StreamAggregatedResources`, api: 'metadata', begin: (call) => this.#begin(call, 'DiscoveryRequest') },
      { path: `${service}/DeltaAggregatedResources`, api: 'metadata', begin: (call) => this.#begin(call, 'DeltaDiscoveryRequest') },
    ] // prettier-ignore
  }

  /** Every Envoy is told what is new to it. */
  publish(resourcesFor: ResourcesForZone): void {
    this.#resourcesFor = resourcesFor
    for (const { stream } of this.#streams.values()) stream.publish(this.#resourcesFor(stream.zone))
  }

  envoys(): EnvoyView[] {
    return [...this.#streams].map(([call, { stream, sinceMs }]) => ({
      node: stream.node,
      zone: stream.zone,
      address: call.remoteAddress,
      sinceMs,
      problem: stream.problem,
    }))
  }

  drain(status: GrpcStatus): void {
    for (const call of this.#streams.keys()) call.finish(status)
  }

  #begin(call: PortCall, form: Form): void {
    if (this.#streams.size >= mostStreams) {
      const text = `${mostStreams} Envoys are connected, and no more are allowed: start a second 'galatea fleet' for the others`
      call.finish(new GrpcStatus(statusCodes.RESOURCE_EXHAUSTED, text))
      return
    }
    const send = (value: MessageValue): void => {
      const bytes = encodeXds(answerOf[form], value)
      call.send({ parts: [bytes], byteLength: bytes.length }, null)
    }
    const stream = new AdsStream(form === 'DeltaDiscoveryRequest', this.#resourcesFor(''), {
      send,
      resourcesFor: (zone) => this.#resourcesFor(zone),
      isBusy: () => call.backlogBytes > 0,
      kept: this.#kept,
    })
    this.#streams.set(call, { stream, sinceMs: this.#clock.wallMs() })
    call.allowLargeMessages()
    call.onClosed = () => {
      this.#streams.delete(call)
      stream.close()
    }
    call.onHalfClose = () => call.finish(new GrpcStatus(statusCodes.OK, ''))
    call.onDrain = () => stream.publish(this.#resourcesFor(stream.zone))
    call.onMessage = (message) => {
      try {
        const request = decodeXds(`envoy.service.discovery.v3.${form}`, message)
        const problem = stream.take(request)
        if (problem !== '') this.#tellRefusal(stream.node, problem)
      } catch (reason) {
        call.finish(GrpcStatus.of(ServerError.from(reason)))
      }
      call.messageDone(message)
    }
  }
  #tellRefusal(node: string, reason: string): void {
    const nowNs = this.#clock.nowNs()
    if (nowNs - this.#toldNs < refusalEveryNs) {
      this.#untold++
      return
    }
    this.#log.error('an Envoy refused what it was told', { node, reason, ...(this.#untold > 0 && { refusals_left_out: this.#untold }) }) // prettier-ignore
    this.#toldNs = nowNs
    this.#untold = 0
  }
}
