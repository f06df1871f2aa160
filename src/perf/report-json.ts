// --profile-export-file: every request with its time, in perf_analyzer's format.

import type { InputStreams } from './input-step.ts'
import { exportedTensors } from './load/exported-tensors.ts'
import type { ExportedRequest } from './load/window-recorder.ts'
import type { PerfOptions } from './perf-options.ts'
import type { LevelResult } from './profiler.ts'

const modeNames = {
  concurrency: 'concurrency',
  rate: 'request_rate',
  intervals: 'request_rate',
  periodic: 'periodic_concurrency',
}

/** In pieces, because the whole text may be longer than the longest string. */
export function* profilePieces(
  results: readonly LevelResult[],
  options: PerfOptions,
  streams: InputStreams,
  version: string,
): Generator<string> {
  const inputs = streams.map((steps) => steps.map((step) => exportedTensors(step.inputs)))
  yield '{"experiments":['
  for (const [at, { load, exported, boundariesNs }] of results.entries()) {
    const experiment = JSON.stringify({ mode: modeNames[options.load.kind], value: load })
    yield `${at === 0 ? '' : ','}{"experiment":${experiment},"requests":[`
    for (const [number, request] of exported.entries()) yield (number === 0 ? '' : ',') + requestText(request, inputs)
    yield `],"window_boundaries":${JSON.stringify(boundariesNs)}}`
  }
  yield `],"version":${JSON.stringify(version)},"service_kind":${JSON.stringify(options.serviceKind)},"endpoint":""}\n`
}

function requestText(request: ExportedRequest, inputs: readonly (readonly string[])[]): string {
  const { timestampNs, sequenceId, responseTimestampsNs, stream, step, outputs } = request
  const sequence = sequenceId === 0 ? '' : `"sequence_id":${sequenceId},`
  const times = `"response_timestamps":[${responseTimestampsNs.join(',')}],"response_outputs":[${outputs.join(',')}]`
  return `{"timestamp":${timestampNs},${sequence}"request_inputs":${inputs[stream]?.[step] ?? '{}'},${times}}`
}
