// The tables of the start-up log: repository agents, backends, models, options.

import type { LogFields } from '../base/log.ts'
import type { ServerOptions } from '../options/server-options.ts'
import { withoutSecrets } from '../repository/cloud/cloud-location.ts'
import type { StartReport } from '../server.ts'
import type { LogWriter } from './log-writer.ts'
import { modelRows } from './model-rows.ts'
import { textTable } from './text-table.ts'

export function writeStartTables(
  log: LogWriter,
  report: StartReport,
  options: ServerOptions,
  extensions: readonly string[],
): void {
  const speaker = log.from('server.ts')
  speaker.table(
    textTable(
      ['Repository Agent', 'Path'],
      report.agents.map((agent) => [agent, 'built in']),
    ),
    report.agents.map((agent) => entryOf('repository agent', { agent, path: 'built in' })),
  )
  speaker.table(
    textTable(
      ['Backend', 'Path', 'Config'],
      report.backends.map((backend) => [backend.name, backend.path, backend.config]),
    ),
    report.backends.map((backend) => entryOf('backend', { backend: backend.name, path: backend.path })),
  )
  const models = modelRows(report.models, options.engine.wordsErrorsLikeTriton)
  speaker.table(
    textTable(['Model', 'Version', 'Status'], models),
    models.map(([model, version, status]) => entryOf('model', { model, version, status })),
  )
  writeOptionTable(log, options, extensions)
}

function writeOptionTable(log: LogWriter, options: ServerOptions, extensions: readonly string[]): void {
  const rows = optionRows(options, extensions)
  log.from('server.ts').table(textTable(['Option', 'Value'], rows), [entryOf('options', Object.fromEntries(rows))])
}

const controlModeText = { none: 'MODE_NONE', poll: 'MODE_POLL', explicit: 'MODE_EXPLICIT' } as const

/** Triton's rows in Triton's order. Options without an effect here (GPU memory) are shown as their flags say. */
export function optionRows(
  { engine, process }: ServerOptions,
  extensions: readonly string[],
): [option: string, value: string][] {
  return [
    ['server_id', engine.id],
    ['server_version', engine.reportedVersion],
    ['server_extensions', extensions.join(' ')],
    ...engine.modelRepositories.map((path, i): [string, string] => {
      return [`model_repository_path[${i}]`, withoutSecrets(path)]
    }),
    ['model_control_mode', controlModeText[engine.modelControlMode]],
    ...engine.loadModels.toSorted().map((name, i): [string, string] => [`startup_models_${i}`, name]),
    ['strict_model_config', engine.isAutoCompleteDisabled ? '1' : '0'],
    ['model_config_name', engine.modelConfigName],
    ['rate_limit', engine.rateLimit === null ? 'OFF' : 'EXEC_COUNT'],
    ...resourceRows(engine.rateLimit?.resources ?? new Map<string, number>()),
    ['pinned_memory_pool_byte_size', String(engine.pinnedPoolBytes)],
    ...[...engine.gpuPoolBytes]
      .sort(([a], [b]) => a - b)
      .map(([gpu, bytes]): [string, string] => [`cuda_memory_pool_byte_size{${gpu}}`, String(bytes)]),
    ['min_supported_compute_capability', engine.minComputeCapability.toFixed(1)],
    ['strict_readiness', engine.isStrictReadiness ? '1' : '0'],
    ['exit_timeout', String(process.exitTimeoutSecs)],
    ['cache_enabled', engine.responseCache !== null ? '1' : '0'],
  ]
}

/** Those of no device first, which Triton calls -1, then by device; the comma that is missing is missing in Triton. */
function resourceRows(resources: ReadonlyMap<string, number>): [option: string, value: string][] {
  const sized = [...resources].map(([key, count]) => {
    const [name = '', device = '-1'] = key.split(':')
    return { name, device: Number(device), count }
  })
  return sized
    .sort((a, b) => a.device - b.device || (a.name < b.name ? -1 : 1))
    .map(({ name, device, count }, i) => [
      `rate_limit_resource[${i}]`,
      `{"name":${JSON.stringify(name)}, "count":${count} "device":${device}}`,
    ])
}

const entryOf = (message: string, fields: LogFields): { message: string; fields: LogFields } => ({ message, fields })
