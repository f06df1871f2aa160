// Which requests are traced, by settings for all models and for single ones, and how: into Triton's trace files, or as spans
// for a collector.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { RequestTrace } from '../model/inference-request.ts'
import type { TraceChanges, TraceControl, TraceSettings } from '../model/trace-control.ts'
import type { SpanSink } from './otlp/span.ts'
import { SpanTrace } from './otlp/span-trace.ts'
import { createTraceId, parseTraceOrigin } from './otlp/trace-context.ts'
import { WallOrigin } from './otlp/wall-origin.ts'
import { TimestampTrace } from './timestamp-trace.ts'
import { TraceFile } from './trace-file.ts'
import type { TraceHistory } from './trace-history.ts'
import { TraceSampler } from './trace-sampler.ts'

export type TracerOptions = TraceSettings & {
  /** '' for no file. Then mode `triton` cannot trace. */
  readonly file: string
}

/** Mode `opentelemetry`. */
type SpanTarget = {
  readonly clock: Clock
  readonly sink: SpanSink
  readonly settings: TraceControl['modeSettings']
}

type OwnSettings = { -readonly [K in keyof TraceSettings]?: TraceSettings[K] }

const noSettings: TraceControl['modeSettings'] = []

export class Tracer implements TraceControl {
  readonly #file: TraceFile
  readonly #atStart: TraceSettings
  /** Null in mode `triton`. */
  readonly #target: SpanTarget | null
  readonly #origin: WallOrigin | null
  /** Null: only the file has traces. */
  readonly #history: TraceHistory | null
  #global: TraceSampler
  /** What clients have changed for all models. All else is as at the start, as is a count that they have not set. */
  #globalOwn: OwnSettings = {}
  /** Models that have settings of their own, with those settings. */
  readonly #models = new Map<string, { own: OwnSettings; sampler: TraceSampler }>()
  #isOn: boolean
  #lastId = 0

  constructor(log: Log, options: TracerOptions, target: SpanTarget | null = null, history: TraceHistory | null = null) {
    const { file, levels, rate, count, logFrequency } = options
    this.#history = history
    this.#target = target === null || history === null ? target : { ...target, sink: keeping(target.sink, history) }
    this.#origin = target === null ? null : new WallOrigin(target.clock)
    this.#file = new TraceFile(log, target === null ? file : '')
    this.#atStart = { levels, rate, count, logFrequency }
    this.#validate(this.#atStart)
    this.#global = new TraceSampler(this.#file, this.#atStart)
    this.#isOn = levels.length > 0
  }

  get mode(): TraceControl['mode'] {
    return this.#target === null ? 'triton' : 'opentelemetry'
  }

  get modeSettings(): TraceControl['modeSettings'] {
    return this.#target?.settings ?? noSettings
  }

  get file(): string {
    return this.#file.path
  }

  /** False when no request can be picked. Then nobody need ask for a trace. HOT. */
  get isOn(): boolean {
    return this.#isOn
  }

  settings(modelName: string): TraceSettings {
    return (this.#models.get(modelName)?.sampler ?? this.#global).settings
  }

  update(modelName: string, changes: TraceChanges): void {
    if (modelName === '') this.#updateGlobal(changes)
    else this.#updateModel(modelName, changes)
    this.#isOn = [this.#global, ...[...this.#models.values()].map(({ sampler }) => sampler)].some(
      ({ settings }) => settings.levels.length > 0,
    )
  }

  /** Null for a request that is not picked. */
  begin(request: InferenceRequest): RequestTrace | null {
    const sampler = this.#models.get(request.modelName)?.sampler ?? this.#global
    if (this.#target !== null) return this.#beginSpans(request, sampler, this.#target)
    if (!sampler.pick()) return null
    const settings = { levels: sampler.settings.levels, nextId: this.#nextId }
    return new TimestampTrace(settings, 0, request.arrivalStamps ?? [], (records) => {
      this.#history?.addRecords(records)
      if (this.#file.path !== '') sampler.add(records)
    })
  }

  /** A request whose caller records the trace is always traced, whatever the rate is. */
  #beginSpans(request: InferenceRequest, sampler: TraceSampler, { sink }: SpanTarget): RequestTrace | null {
    const { traceOrigin } = request
    const parent = traceOrigin === null ? null : parseTraceOrigin(traceOrigin)
    // The copy of a request is traced where its request is, and takes no place of another one.
    const isPicked = !request.isShadow && sampler.pick()
    if (!isPicked && !(parent?.isSampled === true && sampler.isOpen)) return null
    const settings = {
      sink,
      traceId: parent?.traceId ?? createTraceId(),
      traceState: parent?.traceState ?? '',
      originNs: this.#origin?.read() ?? 0n,
      nextId: this.#nextId,
    }
    request.traceId = settings.traceId
    return new SpanTrace(settings, { id: 0, spanId: parent?.spanId ?? '' }, request.arrivalStamps ?? [])
  }

  readonly #nextId = (): number => ++this.#lastId

  /** Writes what is still held back. */
  async close(): Promise<void> {
    this.#isOn = false
    this.#global.flush()
    for (const { sampler } of this.#models.values()) sampler.flush()
    await this.#file.close()
  }

  #updateGlobal(changes: TraceChanges): void {
    const own = changedOwn(this.#globalOwn, this.#global, changes)
    const next = { ...this.#atStart, ...own }
    this.#validateChange(next)
    this.#globalOwn = own
    this.#global.flush()
    this.#global = new TraceSampler(this.#file, next)
    for (const model of this.#models.values()) {
      model.own = changedOwn(model.own, model.sampler, {})
      model.sampler.flush()
      model.sampler = new TraceSampler(this.#file, { ...next, ...model.own })
    }
  }

  #updateModel(modelName: string, changes: TraceChanges): void {
    const model = this.#models.get(modelName)
    const own = changedOwn(model?.own ?? {}, model?.sampler ?? this.#global, changes)
    const next = { ...this.#global.settings, ...own }
    this.#validateChange(next)
    model?.sampler.flush()
    if (Object.keys(own).length === 0) this.#models.delete(modelName)
    else this.#models.set(modelName, { own, sampler: new TraceSampler(this.#file, next) })
  }

  /** Triton starts with a count of 0 and traces nothing. It refuses a change to such settings, and says no more. */
  #validateChange(next: TraceSettings): void {
    this.#validate(next)
    const isTritons = this.#target === null && this.#history === null
    if (isTritons && next.count === 0 && next.levels.length > 0) throw invalidSetting('')
  }

  #validate({ levels, rate }: TraceSettings): void {
    if (levels.length === 0) return
    // In mode `opentelemetry` rate 0 still traces the requests whose callers record the trace.
    if (this.#target !== null) return
    if (rate === 0) throw invalidSetting('sample rate must be non-zero')
    if (this.#file.path === '' && this.#history === null) throw invalidSetting('trace file name is not given')
  }
}

const keeping = (sink: SpanSink, history: TraceHistory): SpanSink => ({
  add: (span) => {
    history.addSpan(span)
    sink.add(span)
  },
})

const settingNames = ['levels', 'rate', 'count', 'logFrequency'] as const

/** The settings that were changed and not cleared since. A count that was set goes on with its rest. */
function changedOwn(own: OwnSettings, { settings }: TraceSampler, changes: TraceChanges): OwnSettings {
  const next = { ...own }
  if (next.count !== undefined) next.count = settings.count
  for (const key of settingNames) {
    const value = changes[key]
    if (value === null) delete next[key]
    else if (value !== undefined) Object.assign(next, { [key]: value })
  }
  return next
}

const invalidSetting = (reason: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `Attempting to set invalid trace setting :${reason}`)
