import type { OpenAiSample } from './openai-sample.ts'

type Spread = { readonly avg: number; readonly p50: number; readonly p90: number; readonly p99: number }

/** What one load showed. Times in milliseconds. */
export type OpenAiFigures = {
  readonly load: number
  readonly requests: number
  readonly failed: number
  readonly firstError: string
  readonly seconds: number
  readonly requestsPerSecond: number
  readonly outputTokensPerSecond: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly firstTokenMs: Spread
  /** Between two pieces of one answer. */
  readonly interTokenMs: Spread
  readonly latencyMs: Spread
}

export function openAiFigures(load: number, samples: readonly OpenAiSample[], seconds: number): OpenAiFigures {
  const good = samples.filter(({ error }) => error === '')
  const outputTokens = good.reduce((sum, each) => sum + each.outputTokens, 0)
  return {
    load,
    requests: good.length,
    failed: samples.length - good.length,
    firstError: samples.find(({ error }) => error !== '')?.error ?? '',
    seconds,
    requestsPerSecond: good.length / seconds,
    outputTokensPerSecond: outputTokens / seconds,
    inputTokens: good.reduce((sum, each) => sum + each.inputTokens, 0),
    outputTokens,
    firstTokenMs: spreadOf(good.map(({ startMs, endMs, piecesMs }) => (piecesMs[0] ?? endMs) - startMs)),
    interTokenMs: spreadOf(
      good.flatMap(({ piecesMs }) => piecesMs.slice(1).map((ms, at) => ms - (piecesMs[at] ?? ms))),
    ),
    latencyMs: spreadOf(good.map(({ startMs, endMs }) => endMs - startMs)),
  }
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? 0
  const sum = sorted.reduce((total, value) => total + value, 0)
  return { avg: sorted.length === 0 ? 0 : sum / sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99) }
}

const ms = (value: number): string => `${value.toFixed(2)} ms`
const spreadText = ({ avg, p50, p90, p99 }: Spread): string =>
  `avg ${ms(avg)}, p50 ${ms(p50)}, p90 ${ms(p90)}, p99 ${ms(p99)}`

export const figuresText = (figures: OpenAiFigures, isStreaming: boolean): string =>
  [
    `  Request count: ${figures.requests}${figures.failed === 0 ? '' : `, failed: ${figures.failed} (${figures.firstError})`}`,
    `  Throughput: ${figures.requestsPerSecond.toFixed(2)} requests/sec`,
    `  Output token throughput: ${figures.outputTokensPerSecond.toFixed(2)} tokens/sec`,
    `  Tokens: ${figures.inputTokens} in, ${figures.outputTokens} out`,
    ...(isStreaming
      ? [
          `  Time to first token: ${spreadText(figures.firstTokenMs)}`,
          `  Inter-token latency: ${spreadText(figures.interTokenMs)}`,
        ]
      : []),
    `  Request latency: ${spreadText(figures.latencyMs)}`,
    '',
  ].join('\n')

const columns: readonly (readonly [name: string, of: (figures: OpenAiFigures) => number])[] = [
  ['Requests/Second', (figures) => figures.requestsPerSecond],
  ['Output Tokens/Second', (figures) => figures.outputTokensPerSecond],
  ...(['avg', 'p50', 'p90', 'p99'] as const).flatMap((key) => [
    [`TTFT ${key} (ms)`, (figures: OpenAiFigures) => figures.firstTokenMs[key]] as const,
    [`ITL ${key} (ms)`, (figures: OpenAiFigures) => figures.interTokenMs[key]] as const,
    [`Latency ${key} (ms)`, (figures: OpenAiFigures) => figures.latencyMs[key]] as const,
  ]),
]

export const figuresCsv = (title: string, all: readonly OpenAiFigures[]): string =>
  [
    [title, ...columns.map(([name]) => name)].join(','),
    ...all.map((figures) => [figures.load, ...columns.map(([, of]) => of(figures).toFixed(3))].join(',')),
    '',
  ].join('\n')
