// The inference requests of TensorFlow Serving's gRPC services from their wire form. Tensors and examples stay views on the
// message: what is in them is read later, perhaps in steps.

import type { ServerError } from '../../base/server-error.ts'
import type { MessageValue } from '../../protobuf/message-codec.ts'
import { ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { tooManyTensors, type InferLimits } from '../request-limits.ts'
import { invalid } from './predict-request.ts'
import { decodeViews } from './serving-messages.ts'

export type WireModelSpec = {
  name: string
  /** '' for the highest version that serves. */
  version: string
  /** Null: the client named no label. */
  label: string | null
  signature: string
}

/** Where a TensorProto lies in its message. */
type WireTensor = { readonly start: number; readonly end: number }

export type WirePredict = {
  readonly spec: WireModelSpec
  readonly inputs: Map<string, WireTensor>
  readonly outputFilter: string[]
}

type WireTask = { readonly spec: WireModelSpec; readonly method: string }
/** What is asked of the examples: one task, or those of a MultiInferenceRequest. */
export type WireExamples = { readonly tasks: readonly WireTask[]; readonly examples: readonly Buffer[] }

export const noSpec = (): WireModelSpec => ({ name: '', version: '', label: null, signature: '' })

/** The most tasks of a MultiInferenceRequest. Each needs a signature of its own. */
const mostTasks = 256

/** HOT: once per inference. Throws INVALID_ARG. */
export function readPredictRequest(bytes: Buffer, limits: InferLimits): WirePredict {
  const reader = new ProtobufReader(bytes)
  let spec: WireModelSpec | null = null
  const inputs = new Map<string, WireTensor>()
  const outputFilter: string[] = []
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) spec = readSpec(reader)
    else if (tag === 18) {
      if (inputs.size >= limits.maxTensors) throw tooManyTensors('inputs', limits.maxTensors)
      readInput(reader, inputs)
    } else if (tag === 26) {
      if (outputFilter.length >= limits.maxTensors) throw tooManyTensors('outputs', limits.maxTensors)
      outputFilter.push(reader.name())
    } else reader.skip(tag)
  }
  if (spec === null) throw missingSpec()
  return { spec, inputs, outputFilter }
}

const missingSpec = (): ServerError => invalid('Missing ModelSpec')

function readInput(reader: ProtobufReader, inputs: Map<string, WireTensor>): void {
  const outer = reader.enter()
  let name = ''
  let start = reader.end
  let { end } = reader
  while (reader.isInside(outer)) {
    const tag = reader.tag()
    if (tag === 10) name = reader.name()
    else if (tag === 18) {
      end = reader.lengthEnd()
      start = reader.at
      reader.at = end
    } else reader.skip(tag)
  }
  inputs.set(name, { start, end })
}

function readSpec(reader: ProtobufReader): WireModelSpec {
  const spec = noSpec()
  for (const outer = reader.enter(); reader.isInside(outer);) {
    const tag = reader.tag()
    if (tag === 10) spec.name = reader.name()
    else if (tag === 18) {
      spec.version = readVersion(reader)
      spec.label = null
    } else if (tag === 26) spec.signature = reader.name()
    else if (tag === 34) {
      spec.label = reader.name()
      spec.version = ''
    } else reader.skip(tag)
  }
  return spec
}

function readVersion(reader: ProtobufReader): string {
  let version = 0n
  for (const outer = reader.enter(); reader.isInside(outer);) {
    const tag = reader.tag()
    if (tag === 8) version = reader.int64()
    else reader.skip(tag)
  }
  return String(version)
}

/** Throws INVALID_ARG. */
export function readExampleRequest(bytes: Buffer, method: string): WireExamples {
  const request = decodeViews('ClassificationRequest', bytes)
  return { tasks: [{ spec: requiredSpec(request), method }], examples: examplesOf(request) }
}

/** Throws INVALID_ARG. */
export function readMultiRequest(bytes: Buffer): WireExamples {
  const request = decodeViews('MultiInferenceRequest', bytes)
  const tasks = request['tasks'] as MessageValue[]
  if (tasks.length > mostTasks) throw invalid(`the request has more than ${mostTasks} tasks, the maximum`)
  return {
    tasks: tasks.map((task) => ({ spec: specOf(task), method: task['methodName'] as string })),
    examples: examplesOf(request),
  }
}

/** The model that a message of the tables asks for. Throws INVALID_ARG where it names none. */
export function requiredSpec(message: MessageValue): WireModelSpec {
  if (message['modelSpec'] === null) throw missingSpec()
  return specOf(message)
}

function specOf({ modelSpec }: MessageValue): WireModelSpec {
  if (modelSpec === null) return noSpec()
  const { name, version, versionLabel, signatureName } = modelSpec as MessageValue
  return {
    name: name as string,
    version: version === null ? '' : String((version as MessageValue)['value']),
    label: versionLabel as string | null,
    signature: signatureName as string,
  }
}

function examplesOf({ input }: MessageValue): readonly Buffer[] {
  const { exampleList, exampleListWithContext } = (input ?? {}) as MessageValue
  const list = (exampleList ?? exampleListWithContext ?? {}) as MessageValue
  const examples = (list['examples'] ?? []) as Buffer[]
  return inContext((list['context'] ?? noBytes) as Buffer, examples)
}

/** The examples with the features that they share. The context is copied once for each of them. Throws INVALID_ARG. */
export function inContext(context: Buffer, examples: readonly Buffer[]): readonly Buffer[] {
  const bytes = context.length * examples.length
  if (bytes === 0) return examples
  if (bytes > mostContextBytes) {
    throw invalid(`the context takes ${bytes} bytes with all examples, at most ${mostContextBytes} are taken`)
  }
  // A message behind another one is merged into it: an example has the features of the context and its own.
  return examples.map((example) => Buffer.concat([context, example]))
}

const noBytes = Buffer.alloc(0)

/** The most bytes of a context, once for each example. */
const mostContextBytes = 16 * 1024 * 1024
