// Reads the server's Prometheus page while a load is measured.

import { messageOf } from '../base/server-error.ts'

export type MetricsSummary = {
  /** By uuid of the GPU. */
  readonly gpuUtilization: ReadonlyMap<string, number>
  readonly gpuPowerWatts: ReadonlyMap<string, number>
  readonly gpuMemoryUsedBytes: ReadonlyMap<string, number>
  readonly gpuMemoryTotalBytes: ReadonlyMap<string, number>
  /** Null when the server has no such metric. */
  readonly cpuUtilization: number | null
  readonly cpuMemoryUsedBytes: number | null
}

type Sample = { readonly name: string; readonly gpu: string; readonly value: number }

/** Reads the metric families that the summary uses, and skips all others. */
function parseMetrics(page: string): Sample[] {
  const samples: Sample[] = []
  for (const match of page.matchAll(/^(nv_(?:gpu|cpu)_\w+)(?:\{([^}]*)\})? +(\S+)/gm)) {
    const [, name = '', labels = '', value = ''] = match
    samples.push({ name, gpu: /gpu_uuid="([^"]*)"/.exec(labels)?.[1] ?? '', value: Number(value) })
  }
  return samples
}

function summariseMetrics(pages: readonly (readonly Sample[])[]): MetricsSummary {
  const samples = pages.flat()
  const byGpu = (name: string, reduce: (values: readonly number[]) => number): Map<string, number> => {
    const values = new Map<string, number[]>()
    for (const sample of samples) {
      if (sample.name === name) values.set(sample.gpu, [...(values.get(sample.gpu) ?? []), sample.value])
    }
    return new Map([...values].map(([gpu, all]) => [gpu, reduce(all)]))
  }
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
  const most = (values: readonly number[]): number => Math.max(...values)
  return {
    gpuUtilization: byGpu('nv_gpu_utilization', mean),
    gpuPowerWatts: byGpu('nv_gpu_power_usage', mean),
    gpuMemoryUsedBytes: byGpu('nv_gpu_memory_used_bytes', most),
    gpuMemoryTotalBytes: byGpu('nv_gpu_memory_total_bytes', (values) => values[0] ?? 0),
    cpuUtilization: byGpu('nv_cpu_utilization', mean).get('') ?? null,
    cpuMemoryUsedBytes: byGpu('nv_cpu_memory_used_bytes', most).get('') ?? null,
  }
}

export class MetricsScraper {
  readonly #url: string
  readonly #timer: NodeJS.Timeout
  #pages: Sample[][] = []
  #failure = ''

  constructor(url: string, intervalMs: number) {
    this.#url = /^https?:\/\//.test(url) ? url : `http://${url}`
    this.#timer = setInterval(() => void this.#read(), intervalMs)
    void this.#read()
  }

  /** '' while the page can be read. */
  get failure(): string {
    return this.#failure
  }

  /** The pages since the last call. Reads the page when there was none; null when it cannot be read. */
  async take(): Promise<MetricsSummary | null> {
    if (this.#pages.length === 0) await this.#read()
    const pages = this.#pages
    this.#pages = []
    return pages.length === 0 ? null : summariseMetrics(pages)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #read(): Promise<void> {
    try {
      const response = await fetch(this.#url, { signal: AbortSignal.timeout(5000) })
      const text = await response.text()
      if (!response.ok) throw new Error(`status ${response.status}`)
      this.#pages.push(parseMetrics(text))
      this.#failure = ''
    } catch (reason) {
      // The error of fetch says only that it failed; its cause says why.
      const cause = reason instanceof Error && reason.cause !== undefined ? reason.cause : reason
      this.#failure = `cannot read metrics at ${this.#url}: ${messageOf(cause)}`
    }
  }
}
