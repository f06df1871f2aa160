// Steps of data → the bytes of requests.

import { deflateSync, gzipSync } from 'node:zlib'
import { encodeInferRequest } from '../client/grpc/infer-message.ts'
import { encodeInferBody } from '../client/http/infer-body.ts'
import type { ParameterValue, RequestedOutput, WireInput, WireRequest } from '../client/infer-request.ts'
import type { HeaderField } from '../transport/http2/hpack-encoder.ts'
import type { ExpectedOutput } from './load/load-order.ts'
import { idDigits, idPlaceholder, type PreparedRequest, type StampPlaces } from './load/prepared-request.ts'
import type { LoadTarget } from '../transport/client-socket.ts'
import { InputDataError, maxInputBytes, type InputStep, type InputStreams } from './input-step.ts'
import type { ModelUnderTest } from './model-under-test.ts'
import type { PerfOptions } from './perf-options.ts'
import { bracketed, parseServerUrl } from './server-url.ts'

/** Where the tensors of a request are in shared memory, in the order of the requests. */
export type PlacedStep = { readonly inputs: readonly WireInput[]; readonly outputs: readonly RequestedOutput[] }

const tailThreshold = 16 * 1024
const packers = { gzip: gzipSync, deflate: deflateSync }

/** One request per batch; its rows are steps that follow each other in the stream. */
export function prepareRequests(
  streams: InputStreams,
  model: ModelUnderTest,
  options: PerfOptions,
  target: LoadTarget,
  placed: readonly (readonly PlacedStep[])[] | null,
): PreparedRequest[][] {
  return streams.map((steps, stream) =>
    batchStarts(steps.length, options.batchSize).map((step, at) => {
      const place = placed?.[stream]?.[at]
      const request: WireRequest = {
        model: model.name,
        version: model.version,
        id: '',
        parameters: parametersOf(model, options),
        inputs: place?.inputs ?? batchedInputs(steps, step, model, options.batchSize),
        outputs: place?.outputs ?? [],
      }
      const bytes = options.protocol === 'http' ? httpBytes(request, options, target) : grpcBytes(request, options)
      return { ...bytes, stream, step }
    }),
  )
}

/** The first step of each batch. Batches follow each other around the end of the stream, until they repeat. */
export function batchStarts(stepCount: number, batchSize: number): number[] {
  const starts: number[] = []
  let at = 0
  do {
    starts.push(at)
    at = (at + batchSize) % stepCount
  } while (at !== 0)
  return starts
}

export function expectedOutputs(streams: InputStreams, batchSize: number): ExpectedOutput[][][] | null {
  if (!streams.some((steps) => steps.some((step) => step.expected !== null))) return null
  return streams.map((steps) =>
    steps.map((step, at) =>
      (step.expected ?? []).map(({ name }) => {
        const rows = Array.from({ length: batchSize }, (_, row) => {
          const { expected } = steps[(at + row) % steps.length] as InputStep
          return expected?.find((each) => each.name === name)?.bytes ?? new Uint8Array(0)
        })
        return { name, bytes: Buffer.concat(rows) }
      }),
    ),
  )
}

export function batchedInputs(
  steps: readonly InputStep[],
  step: number,
  { maxBatchSize }: ModelUnderTest,
  batchSize: number,
): WireInput[] {
  const rows = Array.from({ length: batchSize }, (_, row) => steps[(step + row) % steps.length] as InputStep)
  const first = (rows[0] as InputStep).inputs
  const count = first.length
  return first.map(({ name, dataType, shape }, at) => {
    const tensors = rows.map((row) => row.inputs[at])
    // Inputs are in the order of the model: the same number and the same names at each place are the same inputs.
    if (rows.some((row) => row.inputs.length !== count) || tensors.some((tensor) => tensor?.name !== name)) {
      throw new InputDataError(
        'the rows of a batch must have the same inputs; use -b 1 for data that leaves optional ones out',
      )
    }
    if (tensors.some((tensor) => tensor?.shape.join() !== shape.join())) {
      throw new InputDataError(`input ${name}: the rows of a batch must have one shape; use -b 1 for data with several`)
    }
    const parts = tensors.map((tensor) => tensor?.bytes as Uint8Array)
    const total = parts.reduce((sum, part) => sum + part.length, 0)
    if (total > maxInputBytes) throw new InputDataError(`input ${name} with ${batchSize} rows has more than 2 GiB`)
    const bytes = batchSize === 1 ? parts[0] : Buffer.concat(parts)
    return {
      name,
      dataType,
      shape: maxBatchSize > 0 ? [batchSize, ...shape] : shape,
      bytes: bytes as Uint8Array,
      sharedMemory: null,
    }
  })
}

function parametersOf(model: ModelUnderTest, options: PerfOptions): Record<string, ParameterValue> {
  return {
    ...options.parameters,
    ...(model.isSequence ? { sequence_id: idPlaceholder, sequence_start: true, sequence_end: true } : {}),
    ...(options.isStreaming ? { triton_enable_empty_final_response: true } : {}),
  }
}

type RequestBytes = Pick<PreparedRequest, 'head' | 'tail' | 'stamp' | 'compression'>

function httpBytes(request: WireRequest, options: PerfOptions, { host, port }: LoadTarget): RequestBytes {
  const { inputFormat, outputFormat } = options
  const wantsBinaryFromJson = inputFormat === 'json' && outputFormat === 'binary' && request.outputs.length === 0
  const parameters = wantsBinaryFromJson ? { ...request.parameters, binary_data_output: true } : request.parameters
  const { bytes, headerLength } = encodeInferBody({ ...request, parameters }, inputFormat)
  let json = Buffer.from(bytes.buffer, bytes.byteOffset, headerLength ?? bytes.length)
  if (inputFormat === 'binary' && outputFormat === 'json') {
    json = Buffer.from(json.toString('utf8').replace('"binary_data_output":true', '"binary_data_output":false'))
  }
  if (request.parameters['sequence_id'] !== undefined) {
    // The text has room for "false", which is longer; JSON ignores a blank after "true".
    const text = json.toString('utf8').replace('"sequence_start":true', '"sequence_start":false')
    json = Buffer.from(text.replace('"sequence_end":true', '"sequence_end":false'))
  }
  const tensors = Buffer.from(bytes.buffer, bytes.byteOffset + (headerLength ?? bytes.length))
  const version = request.version === '' ? '' : `/versions/${encodeURIComponent(request.version)}`
  const own = new Set(options.headers.map(([name]) => name.toLowerCase()))
  const lines = [
    `POST ${parseServerUrl(options.url, 'http').basePath}/v2/models/${encodeURIComponent(request.model)}${version}/infer HTTP/1.1`,
    ...(own.has('host') ? [] : [`Host: ${bracketed(host)}:${port}`]),
    ...(own.has('content-type')
      ? []
      : [`Content-Type: ${headerLength === null ? 'application/json' : 'application/octet-stream'}`]),
    ...(headerLength === null ? [] : [`Inference-Header-Content-Length: ${json.length}`]),
    `Content-Length: ${json.length + tensors.length}`,
    ...options.headers.map(([name, value]) => `${name}: ${value}`),
  ]
  const head = Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), json])
  return { ...joined(head, tensors), stamp: jsonPlaces(request, head), compression: 'none' }
}

function jsonPlaces({ parameters }: WireRequest, head: Buffer): StampPlaces | null {
  if (parameters['sequence_id'] === undefined) return null
  const after = (text: string): number => head.indexOf(text) + text.length
  const idAt = after('"sequence_id":')
  if (head.toString('latin1', idAt, idAt + idDigits) !== String(idPlaceholder)) throw new Error('no room for the id')
  return { form: 'json', idAt, startAt: after('"sequence_start":'), endAt: after('"sequence_end":') }
}

/** A small tail is joined with the head for one write; a large tail is not copied. */
const joined = (head: Buffer, tail: Buffer): { readonly head: Buffer; readonly tail: Buffer } =>
  tail.length < tailThreshold ? { head: Buffer.concat([head, tail]), tail: Buffer.alloc(0) } : { head, tail }

function grpcBytes(request: WireRequest, { compression }: PerfOptions): RequestBytes {
  const message = Buffer.concat(encodeInferRequest(request))
  const stamp = protobufPlaces(request, message)
  if (compression !== 'none' && stamp === null) {
    return { head: packers[compression](message), tail: Buffer.alloc(0), stamp, compression }
  }
  return { head: message, tail: Buffer.alloc(0), stamp, compression }
}

function protobufPlaces({ parameters }: WireRequest, message: Buffer): StampPlaces | null {
  if (parameters['sequence_id'] === undefined) return null
  // An entry of the map: the key, then the value with its tag, its length and the tag of the member inside.
  const after = (key: string): number => {
    const entry = Buffer.concat([Buffer.from([0x0a, key.length]), Buffer.from(key)])
    return message.indexOf(entry) + entry.length + 3
  }
  return {
    form: 'protobuf',
    idAt: after('sequence_id'),
    startAt: after('sequence_start'),
    endAt: after('sequence_end'),
  }
}

/** The header fields of every gRPC call. */
export function grpcFields(
  { headers, isStreaming, compression }: PerfOptions,
  { host, port, tls }: LoadTarget,
): HeaderField[] {
  return [
    [':method', 'POST'],
    [':scheme', tls === null ? 'http' : 'https'],
    [':path', `/inference.GRPCInferenceService/${isStreaming ? 'ModelStreamInfer' : 'ModelInfer'}`],
    [':authority', `${bracketed(host)}:${port}`],
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
    ['user-agent', 'galatea-perf'],
    ['grpc-accept-encoding', 'identity'],
    ...(compression === 'none' ? [] : [['grpc-encoding', compression] as const]),
    ...headers.map(([name, value]) => [name.toLowerCase(), value] as const),
  ]
}
