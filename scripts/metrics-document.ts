import { gpuFamilies } from '../src/telemetry/gpu-families.ts'
import { serverFamilies } from '../src/telemetry/metrics-page.ts'
import { latencyBounds } from '../src/telemetry/latency-histogram.ts'
import { modelFamilies, type FamilySettings } from '../src/telemetry/model-families.ts'

const head = `# Metrics

\`\`\`sh
curl -s localhost:8002/metrics
\`\`\`

Prometheus' text format, compressed with gzip for those who accept it. How to scrape and what to watch:
[monitoring](../guide/monitoring.md).

- The port is \`--metrics-port\` (8002), the address \`--metrics-address\` or else that of HTTP; \`--allow-metrics=false\` closes
  it. Other paths on that port are an empty page, other methods 405, as in Triton.
- The series of a model version exist, at 0, from the moment it is loaded, and end when it is gone; those of
  \`nv_inference_request_failure\` stay. A reload goes on counting.
- Labels are \`model\`, \`version\` and, for each entry of the model's \`metric_tags\`, \`_<key>\`.
- Families that begin with \`galatea_\` are Galatea's own (\`--galatea-metrics\`); with \`--triton-defaults\` they are off, and so
  are those of Triton's that its version 2.51 did not have: \`nv_model_load_duration_secs\` and the histogram of first responses.
- Models may add [metrics of their own](../guide/python-models.md).
`

const base: FamilySettings = {
  hasCounters: true,
  hasSummaries: false,
  hasFirstResponses: false,
  quantiles: [],
  hasOwnFamilies: true,
}

function needs(isOn: (settings: FamilySettings) => boolean): string {
  if (!isOn(base)) {
    return isOn({ ...base, hasSummaries: true })
      ? '`--metrics-config summary_latencies=true`'
      : 'decoupled models, with `--metrics-config histogram_latencies=true`'
  }
  if (!isOn({ ...base, hasCounters: false })) return 'not with `--metrics-config counter_latencies=false`'
  return ''
}

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

/** docs/reference/metrics.md, made from the tables that the page itself is made from. */
export function metricsDocument(): string {
  const models = modelFamilies.map(({ name, type, extraLabel, help, isOn }) =>
    row([`\`${name}\``, type, extraLabel === '' ? '' : `\`${extraLabel}\``, help, needs(isOn)]),
  )
  const gpus = gpuFamilies.map(({ name, type, help }) => row([`\`${name}\``, type, help]))
  const server = serverFamilies.map(({ name, help }) => row([`\`${name}\``, 'gauge', help]))
  return `${[
    head,
    '## Per model version\n',
    row(['Family', 'Type', 'Also labelled', 'What it tells', 'When']),
    row(['---', '---', '---', '---', '---']),
    ...models,
    '',
    'Reasons of a failure: `REJECTED` by the scheduler (queue full, time-out), `CANCELED` by the client, `BACKEND` after its',
    'execution began, `OTHER` for the rest. Requests that are refused before they are admitted (unknown model, wrong inputs)',
    'count nowhere, as in Triton. An error that a Python model answers with itself (`InferenceResponse(error=…)`) is a success;',
    'an exception is a failure.',
    '',
    `Bounds of the histograms of seconds: ${latencyBounds.join(', ')}.`,
    '',
    'Summaries hold the last minute; quantiles are those of `--metrics-config summary_quantiles=0.5:0.05,0.99:0.001` (default',
    '0.5, 0.9, 0.95, 0.99, 0.999) and exact to 1.6 %. With `counter_latencies=false` the counts stay at 0: so does Triton.',
    '',
    '## Of the server\n',
    row(['Family', 'Type', 'What it tells']),
    row(['---', '---', '---']),
    ...server,
    '',
    'CPU and memory are looked at every `--metrics-interval-ms` and left out with `--allow-cpu-metrics=false`. There is no pool',
    'of pinned memory, so both its figures are 0. Cache families are not there yet.',
    '',
    '## Per GPU\n',
    'Labelled `gpu_uuid`; from `nvidia-smi`, where that is. Off with `--allow-gpu-metrics=false` or `TRITON_SERVER_CPU_ONLY` in the',
    'environment.\n',
    row(['Family', 'Type', 'What it tells']),
    row(['---', '---', '---']),
    ...gpus,
  ].join('\n')}\n`
}
