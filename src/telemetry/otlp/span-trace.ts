import type { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { RequestTrace } from '../../model/inference-request.ts'
import type { TraceOrigin, TraceStamp } from '../../model/trace-stamp.ts'
import type { Span, SpanAttribute, SpanEvent, SpanSink } from './span.ts'
import { createSpanId, encodeTraceparent } from './trace-context.ts'

/** What the spans of one trace have in common. */
type SpanTraceSettings = {
  readonly sink: SpanSink
  readonly traceId: string
  readonly traceState: string
  readonly originNs: bigint
  /** A number for each request, as in Triton's trace files. */
  readonly nextId: () => number
}

/** The most events of a span: a stream may have any length. */
const maxEvents = 128
const maxErrorChars = 256

/**
 * One request's spans, named and nested as Triton's: `InferRequest` with what the front end does, in it one with the name of
 * the model, in that `compute`. The span of the model is the parent of what is done on its behalf, here and elsewhere.
 */
export class SpanTrace implements RequestTrace {
  readonly context: TraceOrigin
  readonly #settings: SpanTraceSettings
  readonly #id: number
  readonly #parentId: number
  /** The span of the caller: a client's, or that of the model that makes this request; '' for none. */
  readonly #parentSpanId: string
  /** '' for a request that came through no front end. */
  readonly #rootSpanId: string
  readonly #modelSpanId = createSpanId()
  readonly #rootEvents: SpanEvent[]
  #modelName = ''
  #attributes: readonly SpanAttribute[] = []
  #isComposed = false
  #request: InferenceRequest | null = null
  #error: string | null = null
  #holders = 1

  /** `arrival` is null for a request made on behalf of another one. */
  constructor(
    settings: SpanTraceSettings,
    parent: { readonly id: number; readonly spanId: string },
    arrival: readonly TraceStamp[] | null,
  ) {
    this.#settings = settings
    this.#id = settings.nextId()
    this.#parentId = parent.id
    this.#parentSpanId = parent.spanId
    this.#rootSpanId = arrival === null ? '' : createSpanId()
    this.#rootEvents = arrival === null ? [] : [...arrival]
    this.context = {
      traceparent: encodeTraceparent(settings.traceId, this.#modelSpanId),
      tracestate: settings.traceState,
    }
  }

  admitted(request: InferenceRequest, version: string, isComposed: boolean): void {
    this.#request = request
    this.#isComposed = isComposed
    this.#modelName = request.modelName
    const attributes: SpanAttribute[] = [
      ['triton.model_name', request.modelName],
      ['triton.model_version', Number(version)],
      ['triton.trace_id', this.#id],
      ['triton.trace_parent_id', this.#parentId],
    ]
    if (request.id !== '') attributes.push(['triton.request_id', request.id])
    if (request.caller.principal !== '') attributes.push(['enduser.id', request.caller.principal])
    if (request.isShadow) attributes.push(['galatea.shadow', 'true'])
    this.#attributes = attributes
  }

  responded(request: InferenceRequest, response: InferenceResponse): void {
    this.#addRootEvent('INFER_RESPONSE_COMPLETE', request.endNs)
    if (response.error !== null) this.#error = response.error.message.slice(0, maxErrorChars)
  }

  stamp(name: string, ns: number): void {
    this.#addRootEvent(name, ns)
  }

  beginChild(child: InferenceRequest): void {
    child.traceId = this.#settings.traceId
    child.trace = new SpanTrace(this.#settings, { id: this.#id, spanId: this.#modelSpanId }, null)
  }

  retain(): void {
    this.#holders++
  }

  release(): void {
    if (--this.#holders > 0) return
    this.#endModel()
    this.#endRoot()
  }

  #addRootEvent(name: string, ns: number): void {
    if (this.#rootSpanId !== '' && ns !== 0 && this.#rootEvents.length < maxEvents) this.#rootEvents.push([name, ns])
  }

  /** A request that was refused reached no model, so it has no span of a model. */
  #endModel(): void {
    const request = this.#request
    if (request === null) return
    const { receivedNs, queueStartNs, endNs } = request
    if (!this.#isComposed && request.computeStartNs !== 0) {
      const events = reached([
        ['COMPUTE_START', request.computeStartNs],
        ['COMPUTE_INPUT_END', request.computeInputEndNs],
        ['COMPUTE_OUTPUT_START', request.computeOutputStartNs],
        ['COMPUTE_END', request.computeEndNs],
      ])
      this.#add('compute', createSpanId(), this.#modelSpanId, events, [])
      if (request.isGeneration) this.#addGeneration(request)
    }
    const events = reached([
      ['REQUEST_START', receivedNs],
      ['QUEUE_START', queueStartNs],
      ['REQUEST_END', endNs],
    ])
    const parent = this.#rootSpanId === '' ? this.#parentSpanId : this.#rootSpanId
    this.#add(this.#modelName, this.#modelSpanId, parent, events, this.#attributes, this.#error)
  }

  #addGeneration({ queueStartNs, computeStartNs, computeInputEndNs, computeEndNs }: InferenceRequest): void {
    const stages = [
      ['queue', queueStartNs, computeStartNs],
      ['prefill', computeStartNs, computeInputEndNs],
      ['decode', computeInputEndNs, computeEndNs],
    ] as const
    for (const [name, startNs, endNs] of stages) {
      const events = reached([[`${name.toUpperCase()}_START`, startNs], [`${name.toUpperCase()}_END`, endNs]]) // prettier-ignore
      if (events.length === 2) this.#add(name, createSpanId(), this.#modelSpanId, events, [])
    }
  }

  #endRoot(): void {
    if (this.#rootSpanId === '') return
    this.#add('InferRequest', this.#rootSpanId, this.#parentSpanId, this.#rootEvents, [], this.#error)
  }

  /** The span lasts from the first of its events to the last. */
  #add(
    name: string,
    spanId: string,
    parentSpanId: string,
    events: readonly SpanEvent[],
    attributes: readonly SpanAttribute[],
    error: string | null = null,
  ): void {
    const { sink, traceId, traceState, originNs } = this.#settings
    const startNs = events[0]?.[1] ?? 0
    let endNs = startNs
    for (const [, ns] of events) endNs = Math.max(endNs, ns)
    const span: Span = {
      traceId,
      spanId,
      parentSpanId,
      traceState,
      name,
      originNs,
      startNs,
      endNs,
      attributes,
      events,
      error,
    }
    sink.add(span)
  }
}

const reached = (events: readonly SpanEvent[]): SpanEvent[] => events.filter(([, ns]) => ns !== 0)
