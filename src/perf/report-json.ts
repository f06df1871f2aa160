// --profile-export-file: every request with its time, in perf_analyzer's format.

import { bytesElements, typedValues } from '../client/tensor-data.ts'
import type { InputStreams, StepTensor } from './input-step.ts'
import type { PerfOptions } from './perf-options.ts'
import type { LevelResult } from './profiler.ts'
import type { ExportedRequest } from './load/window-recorder.ts'

/** Values of an input are written up to this many; a picture would make the file as large as the traffic. */
const maxElements = 256

const modeNames = {
  concurrency: 'concurrency',
  rate: 'request_rate',
  intervals: 'request_rate',
  periodic: 'periodic_concurrency',
}

export function profileText(
  results: readonly LevelResult[],
  options: PerfOptions,
  streams: InputStreams,
  version: string,
): string {
  const inputs = streams.map((steps) => steps.map((step) => inputValues(step.inputs)))
  const experiments = results.map(({ load, exported, boundariesNs }) => ({
    experiment: { mode: modeNames[options.load.kind], value: load },
    requests: exported.map((request) => requestJson(request, inputs)),
    window_boundaries: boundariesNs,
  }))
  return `${JSON.stringify({ service_kind: options.serviceKind, endpoint: '', version, experiments })}\n`
}

function requestJson(
  { timestampNs, sequenceId, responseTimestampsNs, stream, step }: ExportedRequest,
  inputs: readonly (readonly object[])[],
): object {
  return {
    timestamp: timestampNs,
    ...(sequenceId === 0 ? {} : { sequence_id: sequenceId }),
    request_inputs: inputs[stream]?.[step] ?? {},
    response_timestamps: responseTimestampsNs,
  }
}

function inputValues(tensors: readonly StepTensor[]): object {
  return Object.fromEntries(tensors.flatMap((tensor) => {
    const values = valuesOf(tensor)
    return values === null ? [] : [[tensor.name, values.length === 1 ? values[0] : values] as const]
  })) // prettier-ignore
}

function valuesOf({ name, dataType, bytes }: StepTensor): unknown[] | null {
  if (dataType === 'BYTES') {
    const elements = bytesElements(name, bytes)
    return elements.length > maxElements ? null : elements.map((element) => Buffer.from(element).toString('utf8'))
  }
  const values = typedValues(dataType, bytes)
  return values.length > maxElements ? null : Array.from<number | bigint, number>(values, Number)
}
