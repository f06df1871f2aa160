import type { MetricsText } from './metrics-text.ts'

const valueText = (value: number | bigint): string => {
  if (typeof value === 'bigint' || Number.isFinite(value)) return String(value)
  // As prometheus-cpp spells them.
  return Number.isNaN(value) ? 'Nan' : value > 0 ? '+Inf' : '-Inf'
}

/** Prometheus' text format, version 0.0.4, the one that Triton writes. */
export const prometheusText: MetricsText = {
  contentType: 'text/plain; charset=utf-8',
  end: '',
  familyHead: (name, help, type) =>
    `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${type}\n`,
  valueText,
  boundText: valueText,
  exemplarText: () => '',
}
