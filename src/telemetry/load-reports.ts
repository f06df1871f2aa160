// Load reports in the form of ORCA (Open Request Cost Aggregation), which Envoy and gRPC clients read:
// https://github.com/cncf/xds/blob/main/xds/data/orca/v3/orca_load_report.proto

import { ProtobufWriter } from '../protobuf/protobuf-writer.ts'
import type { LoadFigures } from './pressure-meter.ts'

/** A report names the models under the highest pressure, so that it stays a short header. */
const mostModels = 8
/** Other names could not stand in a header as they are. */
const plainName = /^[\w.-]{1,64}$/

type NamedMetrics = ReadonlyMap<string, number>

export type LoadReport = {
  readonly text: string
  readonly json: string
  readonly message: Buffer
}

/** `named` is what else is known, as the use of a language model's cache. Some callers are told of the server alone, and of no model. */
export function loadReport(figures: LoadFigures, named: NamedMetrics, namesModels = true): LoadReport {
  const fields: readonly (readonly [name: string, field: number, value: number])[] = [
    ['cpu_utilization', 1, figures.cpu],
    ['mem_utilization', 2, figures.memory],
    ['rps_fractional', 6, figures.requestsPerSec],
    ['eps', 7, figures.errorsPerSec],
    // A balancer ignores reports without a utilization: a server that does nothing says a little more than 0.
    ['application_utilization', 9, Math.max(figures.server, 0.001)],
  ]
  const ofModels = namesModels ? [...named, ...modelPressures(figures)] : []
  const all = new Map([['queue', figures.waiting], ...ofModels])
  const plain = Object.fromEntries(fields.map(([name, , value]) => [name, value]))
  const pairs = [
    ...fields.map(([name, , value]) => `${name}=${value}`),
    ...[...all].map(([name, value]) => `named_metrics.${name}=${value}`),
  ]
  return {
    text: `TEXT ${pairs.join(', ')}`,
    json: `JSON ${JSON.stringify({ ...plain, named_metrics: Object.fromEntries(all) })}`,
    message: messageOf(fields, all),
  }
}

/** Versions of a model share its name: the highest pressure counts. */
function modelPressures({ pressures }: LoadFigures): [string, number][] {
  const byModel = new Map<string, number>()
  for (const [{ labels }, pressure] of pressures) {
    const name = labels.find(([label]) => label === 'model')?.[1] ?? ''
    if (plainName.test(name)) byModel.set(name, Math.max(pressure, byModel.get(name) ?? 0))
  }
  const highest = [...byModel].sort(([, a], [, b]) => b - a).slice(0, mostModels)
  return highest.map(([name, pressure]) => [`pressure.${name}`, pressure])
}

const namedMetricsField = 8
const fixed64 = 1

function messageOf(fields: readonly (readonly [string, number, number])[], named: NamedMetrics): Buffer {
  const writer = new ProtobufWriter()
  for (const [, field, value] of fields) {
    writer.tag(field, fixed64)
    writer.double(value)
  }
  for (const [name, value] of named) {
    writer.nested(namedMetricsField, () => {
      writer.textField(1, name)
      writer.tag(2, fixed64)
      writer.double(value)
    })
  }
  return Buffer.from(writer.finish())
}
