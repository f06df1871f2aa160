// The inference requests of TensorFlow Serving's gRPC services from their wire form. Tensors and examples stay views on the
// message: what is in them is read later, perhaps in steps.

import { malformed, ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { tooManyTensors, type InferLimits } from '../request-limits.ts'
import { invalid } from './predict-request.ts'

export type WireModelSpec = {
  name: string
  /** '' for the highest version that serves. */
  version: string
  label: string
  signature: string
}

/** Where a TensorProto lies in its message. */
type WireTensor = { readonly start: number; readonly end: number }

export type WirePredict = {
  spec: WireModelSpec
  readonly inputs: Map<string, WireTensor>
  readonly outputFilter: string[]
}

export type WireTask = { spec: WireModelSpec; method: string }
export type WireExamples = { spec: WireModelSpec; examples: Buffer[]; readonly tasks: WireTask[] }

const noSpec = (): WireModelSpec => ({ name: '', version: '', label: '', signature: '' })

/** The most tasks of a MultiInferenceRequest. Each needs a signature of its own. */
const mostTasks = 256

/** HOT: once per inference. Throws INVALID_ARG. */
export function readPredictRequest(bytes: Buffer, limits: InferLimits): WirePredict {
  const reader = new ProtobufReader(bytes)
  const request: WirePredict = { spec: noSpec(), inputs: new Map(), outputFilter: [] }
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) request.spec = readSpec(reader)
    else if (tag === 18) {
      if (request.inputs.size >= limits.maxTensors) throw tooManyTensors('inputs', limits.maxTensors)
      readInput(reader, request.inputs)
    } else if (tag === 26) {
      if (request.outputFilter.length >= limits.maxTensors) throw tooManyTensors('outputs', limits.maxTensors)
      request.outputFilter.push(reader.name())
    } else reader.skip(tag)
  }
  return request
}

function readInput(reader: ProtobufReader, inputs: Map<string, WireTensor>): void {
  const outer = reader.end
  reader.end = reader.lengthEnd()
  let name = ''
  let start = reader.end
  let { end } = reader
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) name = reader.name()
    else if (tag === 18) {
      end = reader.lengthEnd()
      start = reader.at
      reader.at = end
    } else reader.skip(tag)
  }
  reader.end = outer
  inputs.set(name, { start, end })
}

const noBytes = Buffer.alloc(0)

function readSpec(reader: ProtobufReader): WireModelSpec {
  const spec = noSpec()
  const outer = reader.end
  reader.end = reader.lengthEnd()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) spec.name = reader.name()
    else if (tag === 18) {
      spec.version = readVersion(reader)
      spec.label = ''
    } else if (tag === 26) spec.signature = reader.name()
    else if (tag === 34) {
      spec.label = reader.name()
      spec.version = ''
    } else reader.skip(tag)
  }
  reader.end = outer
  return spec
}

function readVersion(reader: ProtobufReader): string {
  const outer = reader.end
  reader.end = reader.lengthEnd()
  let version = 0n
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 8) version = reader.int64()
    else reader.skip(tag)
  }
  reader.end = outer
  return String(version)
}

/** ClassificationRequest and RegressionRequest: model_spec 1, input 2. */
export function readExampleRequest(bytes: Buffer): WireExamples {
  const reader = new ProtobufReader(bytes)
  const request: WireExamples = { spec: noSpec(), examples: [], tasks: [] }
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) request.spec = readSpec(reader)
    else if (tag === 18) request.examples = readInputMessage(reader)
    else reader.skip(tag)
  }
  return request
}

/** MultiInferenceRequest: tasks 1 (model_spec 1, method_name 2), input 2. */
export function readMultiRequest(bytes: Buffer): WireExamples {
  const reader = new ProtobufReader(bytes)
  const request: WireExamples = { spec: noSpec(), examples: [], tasks: [] }
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) {
      if (request.tasks.length >= mostTasks) throw invalid(`the request has more than ${mostTasks} tasks, the maximum`)
      request.tasks.push(readTask(reader))
    } else if (tag === 18) request.examples = readInputMessage(reader)
    else reader.skip(tag)
  }
  return request
}

function readTask(reader: ProtobufReader): WireTask {
  const task: WireTask = { spec: noSpec(), method: '' }
  const outer = reader.end
  reader.end = reader.lengthEnd()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) task.spec = readSpec(reader)
    else if (tag === 18) task.method = reader.name()
    else reader.skip(tag)
  }
  reader.end = outer
  return task
}

/** Input: example_list 1, example_list_with_context 2 (examples 1, context 2). */
function readInputMessage(reader: ProtobufReader): Buffer[] {
  const outer = reader.end
  reader.end = reader.lengthEnd()
  let examples: Buffer[] = []
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10 || tag === 18) examples = readExamples(reader)
    else reader.skip(tag)
  }
  reader.end = outer
  return examples
}

function readExamples(reader: ProtobufReader): Buffer[] {
  const outer = reader.end
  reader.end = reader.lengthEnd()
  const examples: Buffer[] = []
  let context: Buffer = noBytes
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) examples.push(reader.view())
    else if (tag === 18) context = reader.view()
    else reader.skip(tag)
  }
  reader.end = outer
  if (context.length === 0) return examples
  // A message behind another one is merged into it. The context is copied once for each example.
  const bytes = context.length * examples.length
  if (bytes > mostContextBytes) throw malformed(`its context takes ${bytes} bytes with all examples`)
  return examples.map((example) => Buffer.concat([context, example]))
}

/** The most bytes of a context, once for each example. */
const mostContextBytes = 16 * 1024 * 1024
