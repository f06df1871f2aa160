import { languageFamilies } from '../../llm/language-families.ts'
import type { CustomMetrics } from '../../model/custom-metrics.ts'

const families = { answered: languageFamilies.routed, failed: languageFamilies.routeFailures } as const

/** Counts which model answered the requests of a router, and which one had to be replaced. */
export class RouteTally {
  readonly #metrics: CustomMetrics
  readonly #series: Readonly<Record<keyof typeof families, ReadonlyMap<string, number>>>

  constructor(
    metrics: CustomMetrics,
    {
      model,
      version,
      targets,
    }: { readonly model: string; readonly version: string; readonly targets: readonly string[] },
  ) {
    this.#metrics = metrics
    const seriesOf = ({ name, help, kind, label }: (typeof families)['answered' | 'failed']): Map<string, number> => {
      metrics.createFamily(name, help, kind)
      return new Map(
        targets.map((target) => {
          const labels = new Map([['model', model], ['version', version], [label, target]]) // prettier-ignore
          return [target, metrics.createMetric(name, labels, null)]
        }),
      )
    }
    this.#series = { answered: seriesOf(families.answered), failed: seriesOf(families.failed) }
  }

  note(what: keyof typeof families, target: string): void {
    const series = this.#series[what].get(target)
    if (series !== undefined) this.#metrics.increment(series, 1)
  }

  close(): void {
    for (const each of Object.values(this.#series)) for (const series of each.values()) this.#metrics.remove(series)
  }
}
