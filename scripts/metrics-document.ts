import { alertActions } from '../src/telemetry/alert-families.ts'
import { jobLines, jobStates } from '../src/telemetry/job-families.ts'
import { gpuFamilies } from '../src/telemetry/gpu-families.ts'
import { languageFamilies } from '../src/llm/language-families.ts'
import { latencyBounds } from '../src/telemetry/latency-histogram.ts'
import { modelFamilies } from '../src/telemetry/model-families.ts'
import type { FamilySettings, ModelFamily } from '../src/telemetry/model-family.ts'
import { rolloutFamilies } from '../src/telemetry/rollout-families.ts'
import { scalingFamilies } from '../src/telemetry/scaling-families.ts'
import { mostTenants, tenantFamilies, tenantShare } from '../src/telemetry/tenant-families.ts'
import { residencyFamilies } from '../src/telemetry/residency-families.ts'
import { serverFamilies } from '../src/telemetry/server-families.ts'

const head = `# Metrics

\`\`\`sh
curl -s localhost:8002/metrics
\`\`\`

Prometheus' text format; OpenMetrics 1.0 for those who ask for it (\`Accept: application/openmetrics-text\`, as Prometheus
does by itself); gzip, br or deflate for those who accept that. How to scrape and what to watch:
[monitoring](../guide/monitoring.md).

- The port is \`--metrics-port\` (8002), the address \`--metrics-address\` or else that of HTTP; \`--allow-metrics=false\` closes
  it. Other paths on that port are an empty page, other methods 405, as in Triton.
- The series of a model version exist, at 0, from the moment it is loaded, and end when it is gone; those of
  \`nv_inference_request_failure\` stay. A reload goes on counting.
- Labels are \`model\`, \`version\` and, for each entry of the model's \`metric_tags\`, \`_<key>\`.
- Families that begin with \`galatea_\` are Galatea's own (\`--galatea-metrics\`); with \`--triton-defaults\` they are off, and so
  are those of Triton's that its version 2.51 did not have: \`nv_model_load_duration_secs\` and the histogram of first responses.
- Names are the same in both formats. OpenMetrics calls only that a counter whose name ends in \`_total\`, so Triton's
  counters are of type unknown there: queries need not care. It also has the unit of a family, and an exemplar per bucket of
  the histograms of seconds: the trace of the last request in it, where requests are traced.
- Models may add metrics of their own, in [Python](../guide/python-models.md) and in [TypeScript](../guide/typescript-models.md).
  Those of the identity backend have one, as in Triton: \`input_byte_size_counter\`, the bytes of the inputs they answered with.
`

const base: FamilySettings = {
  hasCounters: true,
  hasSummaries: false,
  hasFirstResponses: false,
  quantiles: [],
  hasOwnFamilies: true,
}

const onlyText = { cached: 'models with a response cache', uncached: 'models without a response cache' }

function needs({ isOn, only }: ModelFamily): string {
  const models = only === null ? [] : [onlyText[only]]
  if (!isOn(base)) {
    return isOn({ ...base, hasSummaries: true })
      ? [...models, '`--metrics-config summary_latencies=true`'].join(', ')
      : '`--metrics-config histogram_latencies=true`'
  }
  if (!isOn({ ...base, hasCounters: false })) models.push('not with `--metrics-config counter_latencies=false`')
  return models.join(', ')
}

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

/** docs/reference/metrics.md, made from the tables that the page itself is made from. */
export function metricsDocument(): string {
  const label = (name: string): string => (name === '' ? '' : `\`${name}\``)
  const models = modelFamilies.map((family) =>
    row([`\`${family.name}\``, family.type, label(family.extraLabel), family.help, needs(family)]),
  )
  const gpus = gpuFamilies.map(({ name, type, help }) => row([`\`${name}\``, type, help]))
  const residency = residencyFamilies.map((family) =>
    row([`\`${family.name}\``, family.type, label(family.label), family.help]),
  )
  const rollouts = rolloutFamilies.map((family) => {
    const labels = family.label.split(', ').map(label).join(', ')
    return row([`\`${family.name}\``, family.type, labels, family.help])
  })
  const server = serverFamilies.map((family) =>
    row([`\`${family.name}\``, family.type, label(family.label), family.help, family.when]),
  )
  return `${[
    head,
    '## Per model version\n',
    row(['Family', 'Type', 'Also labelled', 'What it tells', 'When']),
    row(['---', '---', '---', '---', '---']),
    ...models,
    '',
    'Reasons of a failure: `REJECTED` by the scheduler (queue full, time-out), `CANCELED` by the client, `BACKEND` after its',
    'execution began, `OTHER` for the rest. Requests that are refused before they are admitted (unknown model, wrong inputs)',
    'count in no model’s figures, as in Triton, but in `galatea_requests_refused_total`. An error that a Python model answers with itself (`InferenceResponse(error=…)`) is a success;',
    'an exception is a failure.',
    '',
    `Bounds of the histograms of seconds: ${latencyBounds.join(', ')}.`,
    '',
    'Summaries hold the last minute; quantiles are those of `--metrics-config summary_quantiles=0.5:0.05,0.99:0.001` (default',
    '0.5, 0.9, 0.95, 0.99, 0.999) and exact to 1.6 %. With `counter_latencies=false` the counts stay at 0: so does Triton.',
    '',
    'An instance is busy while it has something to execute: `rate(galatea_instance_busy_seconds_total[1m]) /',
    'galatea_instances` is the share of the time in which the model had work, 0 to 1, for an autoscaler to go by.',
    '',
    '## Of models in memory\n',
    row(['Family', 'Type', 'Also labelled', 'What it tells']),
    row(['---', '---', '---', '---']),
    ...residency,
    '',
    'Labelled by `model`, the state by `version` too; Galatea’s own, so off with `--triton-defaults`. What lazy models and',
    '`--model-memory-limit` are: [model repository](../guide/model-repository.md#models-that-load-on-demand).',
    '',
    '## Of language models\n',
    row(['Family', 'Type', 'Also labelled', 'What it tells', 'With `--llm-metrics=vllm` also']),
    row(['---', '---', '---', '---', '---']),
    ...Object.values(languageFamilies).map(({ name, kind, label: own, help, vllmName }) =>
      row([`\`${name}\``, kind, label(own), help, label(vllmName)]),
    ),
    '',
    'Labelled by `model`, `version` and `instance`; those of vLLM by `model_name` and `engine`.',
    '',
    '## Of instances that follow load\n',
    row(['Family', 'Type', 'Also labelled', 'What it tells']),
    row(['---', '---', '---', '---']),
    ...scalingFamilies.map((family) => row([`\`${family.name}\``, family.type, label(family.label), family.help])),
    '',
    'Labelled by `model` and `version`, for models with [`instances_max`](../guide/autoscaling.md#instances-that-follow-load).',
    '',
    '## Of rollouts\n',
    row(['Family', 'Type', 'Also labelled', 'What it tells']),
    row(['---', '---', '---', '---']),
    ...rollouts,
    '',
    'Labelled by `model`, the results aside; Galatea’s own, so off with `--triton-defaults`. They are on the page once there was a rollout.',
    '',
    '## By tenant\n',
    row(['Family', 'Type', 'Also labelled', 'What it tells']),
    row(['---', '---', '---', '---']),
    ...tenantFamilies.map(({ name, help, label: also }) => row([`\`${name}\``, 'counter', label(also), help])),
    row([`\`${tenantShare.name}\``, 'gauge', label(''), tenantShare.help]),
    '',
    `Labelled by \`tenant\`; only with \`--access-config\`. The first ${mostTenants} tenants have lines of their own, the rest is \`other\`.`,
    '',
    '## Of jobs\n',
    row(['Family', 'Type', 'Labelled', 'What it tells']),
    row(['---', '---', '---', '---']),
    row([`\`${jobLines.name}\``, 'counter', '`model`, `outcome`', jobLines.help]),
    row([`\`${jobStates.name}\``, 'gauge', '`state`', jobStates.help]),
    '',
    'Only with `--allow-jobs`.',
    '',
    '## Of alerts\n',
    row(['Family', 'Type', 'Labelled', 'What it tells']),
    row(['---', '---', '---', '---']),
    row([`\`${alertActions.name}\``, 'counter', '`action`, `outcome`', alertActions.help]),
    '',
    'Only with [`--actions`](../guide/alerts.md), once something was done.',
    '',
    '## Of the server\n',
    row(['Family', 'Type', 'Labelled', 'What it tells', 'When']),
    row(['---', '---', '---', '---', '---']),
    ...server,
    '',
    'CPU and memory are looked at every `--metrics-interval-ms` and left out with `--allow-cpu-metrics=false`. Without a GPU there is no pool',
    'of pinned memory, so both its figures are 0. Triton has the families of the cache as gauges, though they only grow. What a',
    'cache in Redis holds and evicts, Redis tells: those figures are 0 here.',
    '',
    'Reasons of a refusal: `invalid` (the request is not what the model takes), `not_found` and `unavailable` (no such model, or',
    'none that can serve), `unsupported`, `too_large`, `internal` (Triton’s code for a body that cannot be read).',
    '',
    '## Per GPU\n',
    'Labelled `gpu_uuid`; from `nvidia-smi`, where that is. Off with `--allow-gpu-metrics=false` or `TRITON_SERVER_CPU_ONLY` in the',
    'environment. When `nvidia-smi` ends, as while a driver is replaced, the log says so, and it is started again after 10 s, then with pauses that',
    'double up to 5 minutes.\n',
    row(['Family', 'Type', 'What it tells']),
    row(['---', '---', '---']),
    ...gpus,
  ].join('\n')}\n`
}
