import { hostname } from 'node:os'
import type { Engine } from '../../engine/engine.ts'

/** What TorchServe's metrics page shows, under its names. */
export class TorchserveCounts {
  readonly #byClass = new Map<number, number>()

  answered(status: number): void {
    const kind = Math.floor(status / 100)
    this.#byClass.set(kind, (this.#byClass.get(kind) ?? 0) + 1)
  }

  /** `names`: only these families; empty: all. `isVisible`: which models the reader may see; null: all. */
  text(
    engine: Engine,
    names: ReadonlySet<string>,
    versionOf: (model: string, version: string) => string,
    isVisible: ((model: string) => boolean) | null,
  ): string {
    const host = quoted(hostname())
    const lines: string[] = []
    const family = (name: string, help: string, kind: string, rows: readonly string[]): void => {
      if (names.size > 0 && !names.has(name)) return
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...rows.map((row) => `${name}${row}`))
    }
    for (const [name, kind] of [
      ['Requests2XX', 2],
      ['Requests4XX', 4],
      ['Requests5XX', 5],
    ] as const) {
      const row = `{Level="Host",Hostname=${host},} ${this.#byClass.get(kind) ?? 0}.0`
      family(name, `Torchserve prometheus counter metric with unit: Count`, 'counter', [row])
    }
    const statistics = engine.statistics('', '').filter(({ name }) => isVisible === null || isVisible(name))
    const rows = (value: (one: (typeof statistics)[number]) => number): string[] =>
      statistics.map((one) => {
        const version = quoted(versionOf(one.name, one.version))
        return `{model_name=${quoted(one.name)},model_version=${version},hostname=${host},} ${value(one).toFixed(1)}`
      })
    const us = (ns: number | bigint): number => Number(ns) / 1000
    const counter = 'Torchserve prometheus counter metric with unit: '
    family(
      'ts_inference_requests_total',
      `${counter}Count`,
      'counter',
      rows((one) => one.inferenceCount),
    )
    family(
      'ts_inference_latency_microseconds',
      `${counter}Microseconds`,
      'counter',
      rows((one) => us(one.inferenceStats.success.ns)),
    )
    family(
      'ts_queue_latency_microseconds',
      `${counter}Microseconds`,
      'counter',
      rows((one) => us(one.inferenceStats.queue.ns)),
    )
    return `${lines.join('\n')}\n`
  }
}

const quoted = (text: string): string =>
  `"${text.replace(/["\\\n]/g, (mark) => (mark === '\n' ? '\\n' : `\\${mark}`))}"`
