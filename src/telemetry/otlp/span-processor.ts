// Collects spans and sends them in batches, in the background. When too many spans wait, new ones are dropped.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf } from '../../base/server-error.ts'
import { encodeSpans } from './encode-spans.ts'
import type { Span, SpanAttribute, SpanSink } from './span.ts'

/** The way to a collector. */
export interface SpanExporter {
  /** Rejects when the collector did not take it. */
  send(body: Buffer): Promise<void>
  /** Twice is fine. */
  close(): void
}

type SpanProcessorOptions = {
  readonly url: string
  readonly resource: readonly SpanAttribute[]
  /** Spans that wait to be sent; what comes on top is dropped. */
  readonly maxQueueSize: number
  /** Between two exports, unless a batch is full before. */
  readonly scheduleDelayMs: number
  readonly maxExportBatchSize: number
}

/** A collector that is away for as long as this takes gets the batch; after that the batch is lost. */
const retryDelaysMs: readonly number[] = [1000, 2000, 4000]

export class SpanProcessor implements SpanSink {
  readonly #clock: Clock
  readonly #log: Log
  readonly #exporter: SpanExporter
  readonly #options: SpanProcessorOptions
  #queue: Span[] = []
  #cancelTimer: Cancel | null = null
  #exporting: Promise<void> | null = null
  #hasFailed = false
  #isClosed = false
  #wakeRetry: (() => void) | null = null
  exportedCount = 0
  /** For want of room in the queue. */
  overflowCount = 0
  /** Because the collector did not take them. */
  failedCount = 0

  constructor(
    dependencies: { readonly clock: Clock; readonly log: Log; readonly exporter: SpanExporter },
    options: SpanProcessorOptions,
  ) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('span-processor.ts')
    this.#exporter = dependencies.exporter
    this.#options = options
  }

  add(span: Span): void {
    if (this.#isClosed || this.#queue.length >= this.#options.maxQueueSize) {
      this.overflowCount++
      return
    }
    this.#queue.push(span)
    if (this.#exporting !== null) return
    if (this.#queue.length >= this.#options.maxExportBatchSize) this.#export()
    else this.#cancelTimer ??= this.#clock.after(this.#options.scheduleDelayMs * 1e6, () => this.#export())
  }

  /** Sends what is there, for at most so long. What is left then is lost. */
  async close(limitMs: number): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    let cancelLimit: Cancel = () => undefined
    const limit = new Promise<void>((resolve) => {
      cancelLimit = this.#clock.after(limitMs * 1e6, resolve)
    })
    this.#wakeRetry?.()
    await Promise.race([this.#flush(), limit])
    cancelLimit()
    this.#cancelTimer?.()
    this.#cancelTimer = null
    this.failedCount += this.#queue.length
    this.#queue = []
    this.#exporter.close()
  }

  async #flush(): Promise<void> {
    while (this.#exporting !== null || this.#queue.length > 0) {
      if (this.#exporting === null) this.#export()
      await this.#exporting
    }
  }

  #export(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    const spans = this.#queue.splice(0, this.#options.maxExportBatchSize)
    if (spans.length === 0) return
    this.#exporting = this.#send(spans).finally(() => {
      this.#exporting = null
      if (this.#isClosed || this.#queue.length === 0) return
      if (this.#queue.length >= this.#options.maxExportBatchSize) this.#export()
      else this.#cancelTimer ??= this.#clock.after(this.#options.scheduleDelayMs * 1e6, () => this.#export())
    })
  }

  /** Never rejects. */
  async #send(spans: readonly Span[]): Promise<void> {
    const body = encodeSpans(this.#options.resource, spans)
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#exporter.send(body)
        this.exportedCount += spans.length
        if (this.#hasFailed) this.#log.info('traces reach their collector again', { url: this.#options.url })
        this.#hasFailed = false
        return
      } catch (reason) {
        this.#tell(reason)
        const delayMs = retryDelaysMs[attempt]
        if (delayMs === undefined || this.#isClosed) {
          this.failedCount += spans.length
          return
        }
        await this.#pause(delayMs)
      }
    }
  }

  async #pause(delayMs: number): Promise<void> {
    let cancel: Cancel = () => undefined
    await new Promise<void>((resolve) => {
      this.#wakeRetry = resolve
      cancel = this.#clock.after(delayMs * 1e6, resolve)
    })
    cancel()
    this.#wakeRetry = null
  }

  /** Once per outage. */
  #tell(reason: unknown): void {
    if (this.#hasFailed) return
    this.#hasFailed = true
    this.#log.warning('traces do not reach their collector', { url: this.#options.url, reason: messageOf(reason) })
  }
}
