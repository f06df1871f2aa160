// KServe's own metrics: how long reading, running and writing a prediction took, by the names and buckets of its Python server.

/** Upper bounds in seconds, as prometheus_client has them. */
const bounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

const families = {
  request_preprocess_seconds: 'pre-process request latency',
  request_predict_seconds: 'predict request latency',
  request_postprocess_seconds: 'post-process request latency',
} as const

type Family = keyof typeof families
/** What was counted below each bound, and behind the last one; the sum of all times. */
type Times = { readonly counts: number[]; sum: number }

export class PredictTimes {
  /** The times of a model that is gone stay: scrapers expect that counters only grow. At most as many as models were served. */
  readonly #times = new Map<Family, Map<string, Times>>()

  /** Notes the four moments of a prediction that succeeded. */
  note(model: string, [begun, read, answered, written]: readonly [number, number, number, number]): void {
    this.#add('request_preprocess_seconds', model, read - begun)
    this.#add('request_predict_seconds', model, answered - read)
    this.#add('request_postprocess_seconds', model, written - answered)
  }

  #add(family: Family, model: string, ns: number): void {
    const models = this.#times.get(family) ?? new Map<string, Times>()
    this.#times.set(family, models)
    const times = models.get(model) ?? { counts: Array<number>(bounds.length + 1).fill(0), sum: 0 }
    models.set(model, times)
    const seconds = ns / 1e9
    const bucket = bounds.findIndex((bound) => seconds <= bound)
    const index = bucket === -1 ? bounds.length : bucket
    times.counts[index] = (times.counts[index] ?? 0) + 1
    times.sum += seconds
  }

  /** Prometheus text. `isVisible`: the models that the reader may see; null: all. */
  text(isVisible: ((model: string) => boolean) | null): string {
    const lines: string[] = []
    for (const [family, help] of Object.entries(families) as [Family, string][]) {
      lines.push(`# HELP ${family} ${help}`, `# TYPE ${family} histogram`)
      for (const [model, times] of this.#times.get(family) ?? []) {
        if (isVisible === null || isVisible(model)) lines.push(...rowsOf(family, model, times))
      }
    }
    return `${lines.join('\n')}\n`
  }
}

function rowsOf(family: Family, model: string, { counts, sum }: Times): string[] {
  const label = `model_name=${JSON.stringify(model)}`
  let total = 0
  const rows = counts.map((count, i) => {
    total += count
    return `${family}_bucket{le="${boundText(bounds[i])}",${label}} ${total}`
  })
  return [...rows, `${family}_count{${label}} ${total}`, `${family}_sum{${label}} ${sum}`]
}

/** As Python prints a float. */
const boundText = (bound: number | undefined): string =>
  bound === undefined ? '+Inf' : Number.isInteger(bound) ? `${bound}.0` : String(bound)
