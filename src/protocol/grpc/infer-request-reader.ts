// ModelInferRequest from its wire form, by hand. HOT: once per inference.
// Raw contents are not copied: they are views on the message. Typed contents stay in the message until
// infer-contents.ts writes them into their tensor. Every count is bounded before memory grows with it.

import type { InferLimits } from '../request-limits.ts'
import { idTooLong, tooManyDimensions, tooManyParameters, tooManyTensors } from '../request-limits.ts'
import { malformed, ProtobufReader, requestReaderLimits, type ReaderLimits } from '../../protobuf/protobuf-reader.ts'

type ParameterKind = 'bool_param' | 'int64_param' | 'string_param' | 'double_param' | 'uint64_param' | 'not set'

/** An InferParameter: which of the choices was made, and its value. */
export class WireParameter {
  readonly kind: ParameterKind
  readonly value: boolean | bigint | string | number

  constructor(kind: ParameterKind, value: boolean | bigint | string | number) {
    this.kind = kind
    this.value = value
  }
}

export type WireParameters = Map<string, WireParameter>

export class WireInput {
  name = ''
  dataType = ''
  shape: number[] = []
  parameters: WireParameters | null = null
  /** The bytes of each InferTensorContents; null when the input has none. Several count as one, joined. */
  contents: Buffer[] | null = null
}

export class WireOutput {
  name = ''
  parameters: WireParameters | null = null
}

export class WireInferRequest {
  modelName = ''
  modelVersion = ''
  id = ''
  parameters: WireParameters | null = null
  readonly inputs: WireInput[] = []
  readonly outputs: WireOutput[] = []
  /** At most as many as inputs are allowed; more are ignored, as in Triton. */
  readonly rawContents: Buffer[] = []
  rawContentsCount = 0
}

/** The most contents of one input; a usual request has one. */
const mostContents = 16

/** Throws INVALID_ARG for bytes that are not such a message, and for a message that exceeds the limits. */
export function readInferRequest(bytes: Buffer, limits: InferLimits): WireInferRequest {
  const reader = new ProtobufReader(bytes, 0, bytes.length, readerLimitsOf(limits))
  const request = new WireInferRequest()
  const scope = { limits, parametersLeft: limits.maxParameters }
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case 10:
        request.modelName = reader.name()
        break
      case 18:
        request.modelVersion = reader.name()
        break
      case 26:
        request.id = readId(reader, limits)
        break
      case 34:
        readParameter(reader, (request.parameters ??= new Map()), scope)
        break
      case 42:
        if (request.inputs.length >= limits.maxTensors) throw tooManyTensors('inputs', limits.maxTensors)
        request.inputs.push(readInput(reader, scope))
        break
      case 50:
        if (request.outputs.length >= limits.maxTensors) throw tooManyTensors('outputs', limits.maxTensors)
        request.outputs.push(readOutput(reader, scope))
        break
      case 58:
        request.rawContentsCount++
        if (request.rawContents.length < limits.maxTensors) request.rawContents.push(reader.view())
        else reader.skip(tag)
        break
      default:
        reader.skip(tag)
    }
  }
  return request
}

let [known, ofKnown]: [InferLimits | null, ReaderLimits] = [null, requestReaderLimits]

/** More allowed tensors and parameters also mean more allowed fields. All requests of a port share one object. */
function readerLimitsOf(limits: InferLimits): ReaderLimits {
  if (limits !== known) {
    const { maxTensors, maxRank, maxParameters } = limits
    const mostFields = requestReaderLimits.mostFields + maxTensors * (8 + maxRank) + maxParameters * 4
    ;[known, ofKnown] = [limits, { ...requestReaderLimits, mostFields }]
  }
  return ofKnown
}

function readId(reader: ProtobufReader, limits: InferLimits): string {
  const start = reader.at
  const idBytes = reader.lengthEnd() - reader.at
  if (idBytes > limits.maxIdBytes) throw idTooLong(idBytes, limits.maxIdBytes)
  reader.at = start
  return reader.string()
}

/** The id of a request that could not be read completely, for its error answer; '' when there is no id. */
export function readInferRequestId(bytes: Buffer, limits: InferLimits): string {
  const reader = new ProtobufReader(bytes)
  let id = ''
  try {
    while (reader.at < reader.end) {
      const tag = reader.tag()
      if (tag !== 26) {
        reader.skip(tag)
        continue
      }
      const end = reader.lengthEnd()
      id = bytes.toString('utf8', reader.at, Math.min(end, reader.at + limits.maxIdBytes))
      reader.at = end
    }
  } catch {
    // The id is found only if it comes before the bad bytes.
  }
  return id
}

type Scope = { readonly limits: InferLimits; parametersLeft: number }

function readInput(reader: ProtobufReader, scope: Scope): WireInput {
  const input = new WireInput()
  const outerEnd = reader.end
  reader.end = reader.lengthEnd()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case 10:
        input.name = reader.name()
        break
      case 18:
        input.dataType = reader.name()
        break
      case 24:
        addDimension(reader, input.shape, scope)
        break
      case 26: {
        const inputEnd = reader.end
        reader.end = reader.lengthEnd()
        while (reader.at < reader.end) addDimension(reader, input.shape, scope)
        reader.end = inputEnd
        break
      }
      case 34:
        readParameter(reader, (input.parameters ??= new Map()), scope)
        break
      case 42:
        input.contents ??= []
        if (input.contents.length >= mostContents) throw malformed('an input has its contents too many times')
        input.contents.push(reader.view())
        break
      default:
        reader.skip(tag)
    }
  }
  reader.end = outerEnd
  return input
}

function addDimension(reader: ProtobufReader, shape: number[], { limits }: Scope): void {
  if (shape.length >= limits.maxRank) throw tooManyDimensions(limits.maxRank)
  shape.push(reader.int64Number())
}

function readOutput(reader: ProtobufReader, scope: Scope): WireOutput {
  const output = new WireOutput()
  const outerEnd = reader.end
  reader.end = reader.lengthEnd()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) output.name = reader.name()
    else if (tag === 18) readParameter(reader, (output.parameters ??= new Map()), scope)
    else reader.skip(tag)
  }
  reader.end = outerEnd
  return output
}

const unset = new WireParameter('not set', '')

function readParameter(reader: ProtobufReader, parameters: WireParameters, scope: Scope): void {
  if (--scope.parametersLeft < 0) throw tooManyParameters(scope.limits.maxParameters)
  const outerEnd = reader.end
  reader.end = reader.lengthEnd()
  let key = ''
  let value = unset
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) key = reader.string()
    else if (tag === 18) value = readChoice(reader)
    else reader.skip(tag)
  }
  reader.end = outerEnd
  parameters.set(key, value)
}

function readChoice(reader: ProtobufReader): WireParameter {
  const outerEnd = reader.end
  reader.end = reader.lengthEnd()
  let parameter = unset
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 8) parameter = new WireParameter('bool_param', reader.bool())
    else if (tag === 16) parameter = new WireParameter('int64_param', reader.int64())
    else if (tag === 26) parameter = new WireParameter('string_param', reader.string())
    else if (tag === 33) parameter = new WireParameter('double_param', reader.double())
    else if (tag === 40) parameter = new WireParameter('uint64_param', reader.uint64())
    else reader.skip(tag)
  }
  reader.end = outerEnd
  return parameter
}
