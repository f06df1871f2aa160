// The first of two steps to read an inference request: the whole JSON text is checked and becomes a draft. The second
// step (infer-request-reader.ts) checks the values, because a syntax error anywhere is reported before a wrong value.
// Tensor elements are the exception: this step converts them, and keeps their error in the draft.

import { isDataType } from '../tensor/data-type.ts'
import { elementCount, type Shape } from '../tensor/shape.ts'
import { char, type JsonScanner, type JsonValue } from './json-scanner.ts'
import { tooManyDimensions, tooManyParameters, tooManyTensors, type RequestLimits } from './request-limits.ts'
import { isJsonType, readTensorData, type TensorData } from './tensor-data-reader.ts'

/** A member's value; undefined when the object has no such member. Of two members of one name the first is used. */
export type Member = JsonValue | undefined

export type TensorParameters = {
  binaryDataSize: Member
  binaryData: Member
  classification: Member
  sharedMemoryRegion: Member
  sharedMemoryOffset: Member
  sharedMemoryByteSize: Member
}

export type InputDraft = {
  name: Member
  dataType: Member
  /** 'invalid': an array with an element that is not an unsigned 64-bit integer. */
  shape: readonly number[] | 'absent' | 'not an array' | 'invalid'
  /** Where `data` starts; -1 without it. */
  dataStart: number
  isDataArray: boolean
  /** Null while the elements are unread, because `data` came before the members that say how to read it. */
  data: TensorData | null
  parameters: TensorParameters | null
}

export type OutputDraft = { name: Member; parameters: TensorParameters | null }

export type InferDraft = {
  id: Member
  /** Null without `parameters`. */
  parameters: readonly (readonly [name: string, value: JsonValue])[] | 'not an object' | null
  inputs: readonly InputDraft[] | 'absent' | 'not an array'
  outputs: readonly OutputDraft[] | 'absent' | 'not an array'
  /** The first member that no request has; '' for none. */
  other: string
}

const key = (text: string): Uint8Array => new TextEncoder().encode(text)
const keys = {
  id: key('id'),
  parameters: key('parameters'),
  inputs: key('inputs'),
  outputs: key('outputs'),
  name: key('name'),
  shape: key('shape'),
  datatype: key('datatype'),
  data: key('data'),
  binaryDataSize: key('binary_data_size'),
  binaryData: key('binary_data'),
  classification: key('classification'),
  sharedMemoryRegion: key('shared_memory_region'),
  sharedMemoryOffset: key('shared_memory_offset'),
  sharedMemoryByteSize: key('shared_memory_byte_size'),
}

export function scanInferRequest(scanner: JsonScanner, limits: RequestLimits): InferDraft {
  const draft: InferDraft = { id: undefined, parameters: null, inputs: 'absent', outputs: 'absent', other: '' }
  if (scanner.startDocument() !== char.leftBrace) {
    scanner.skipValue()
  } else {
    for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
      scanRootMember(scanner, limits, draft)
    }
  }
  scanner.endDocument()
  return draft
}

function scanRootMember(scanner: JsonScanner, limits: RequestLimits, draft: InferDraft): void {
  if (scanner.stringIs(keys.inputs) && draft.inputs === 'absent') {
    draft.inputs = scanArray(scanner, 'inputs', limits, scanInput)
  } else if (scanner.stringIs(keys.outputs) && draft.outputs === 'absent') {
    draft.outputs = scanArray(scanner, 'outputs', limits, scanOutput)
  } else if (scanner.stringIs(keys.parameters) && draft.parameters === null) {
    draft.parameters = scanParameters(scanner, limits)
  } else if (scanner.stringIs(keys.id) && draft.id === undefined) {
    draft.id = scanner.readValue()
  } else {
    if (draft.other === '') draft.other = scanner.stringValue()
    scanner.skipValue()
  }
}

function scanArray<T>(
  scanner: JsonScanner,
  kind: 'inputs' | 'outputs',
  limits: RequestLimits,
  scanElement: (scanner: JsonScanner, limits: RequestLimits) => T,
): T[] | 'not an array' {
  if (scanner.peek() !== char.leftBracket) {
    scanner.skipValue()
    return 'not an array'
  }
  const elements: T[] = []
  for (let isElement = scanner.nextElement(true); isElement; isElement = scanner.nextElement(false)) {
    if (elements.length === limits.maxTensors) throw tooManyTensors(kind, limits.maxTensors)
    elements.push(scanElement(scanner, limits))
  }
  return elements
}

function scanParameters(scanner: JsonScanner, limits: RequestLimits): InferDraft['parameters'] {
  if (scanner.peek() !== char.leftBrace) {
    scanner.skipValue()
    return 'not an object'
  }
  const members: [string, JsonValue][] = []
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    if (members.length === limits.maxParameters) throw tooManyParameters(limits.maxParameters)
    const name = scanner.stringValue()
    members.push([name, scanner.readValue()])
  }
  return members
}

function scanInput(scanner: JsonScanner, limits: RequestLimits): InputDraft {
  const input: InputDraft = {
    name: undefined,
    dataType: undefined,
    shape: 'absent',
    dataStart: -1,
    isDataArray: false,
    data: null,
    parameters: null,
  }
  if (scanner.peek() !== char.leftBrace) {
    scanner.skipValue()
    return input
  }
  let hasParameters = false
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    if (scanner.stringIs(keys.data) && input.dataStart < 0) scanData(scanner, limits, input)
    else if (scanner.stringIs(keys.name) && input.name === undefined) input.name = scanner.readValue()
    else if (scanner.stringIs(keys.shape) && input.shape === 'absent') input.shape = scanShape(scanner, limits)
    else if (scanner.stringIs(keys.datatype) && input.dataType === undefined) input.dataType = scanner.readValue()
    else if (scanner.stringIs(keys.parameters) && !hasParameters) {
      hasParameters = true
      input.parameters = scanTensorParameters(scanner)
    } else scanner.skipValue()
  }
  return input
}

function scanOutput(scanner: JsonScanner): OutputDraft {
  const output: OutputDraft = { name: undefined, parameters: null }
  if (scanner.peek() !== char.leftBrace) {
    scanner.skipValue()
    return output
  }
  let hasParameters = false
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    if (scanner.stringIs(keys.name) && output.name === undefined) output.name = scanner.readValue()
    else if (scanner.stringIs(keys.parameters) && !hasParameters) {
      hasParameters = true
      output.parameters = scanTensorParameters(scanner)
    } else scanner.skipValue()
  }
  return output
}

/** Null for anything but an object, which Triton ignores here. */
function scanTensorParameters(scanner: JsonScanner): TensorParameters | null {
  if (scanner.peek() !== char.leftBrace) {
    scanner.skipValue()
    return null
  }
  const found: TensorParameters = {
    binaryDataSize: undefined,
    binaryData: undefined,
    classification: undefined,
    sharedMemoryRegion: undefined,
    sharedMemoryOffset: undefined,
    sharedMemoryByteSize: undefined,
  }
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    if (scanner.stringIs(keys.binaryDataSize)) found.binaryDataSize = readFirst(scanner, found.binaryDataSize)
    else if (scanner.stringIs(keys.binaryData)) found.binaryData = readFirst(scanner, found.binaryData)
    else if (scanner.stringIs(keys.classification)) found.classification = readFirst(scanner, found.classification)
    else if (scanner.stringIs(keys.sharedMemoryRegion)) {
      found.sharedMemoryRegion = readFirst(scanner, found.sharedMemoryRegion)
    } else if (scanner.stringIs(keys.sharedMemoryOffset)) {
      found.sharedMemoryOffset = readFirst(scanner, found.sharedMemoryOffset)
    } else if (scanner.stringIs(keys.sharedMemoryByteSize)) {
      found.sharedMemoryByteSize = readFirst(scanner, found.sharedMemoryByteSize)
    } else scanner.skipValue()
  }
  return found
}

function readFirst(scanner: JsonScanner, earlier: Member): Member {
  if (earlier === undefined) return scanner.readValue()
  scanner.skipValue()
  return earlier
}

function scanShape(scanner: JsonScanner, limits: RequestLimits): InputDraft['shape'] {
  if (scanner.peek() !== char.leftBracket) {
    scanner.skipValue()
    return 'not an array'
  }
  const shape: number[] = []
  let isValid = true
  for (let isElement = scanner.nextElement(true); isElement; isElement = scanner.nextElement(false)) {
    const size = scanDimension(scanner)
    if (size < 0) isValid = false
    if (shape.length === limits.maxRank) throw tooManyDimensions(limits.maxRank)
    shape.push(size)
  }
  return isValid ? shape : 'invalid'
}

/** -1 for anything but an unsigned 64-bit integer; beyond 2⁵³ not exact, which is refused later. */
function scanDimension(scanner: JsonScanner): number {
  const { bytes, end } = scanner
  let size = 0
  let position = scanner.position
  const first = scanner.peek()
  if (first > char.zero && first <= char.nine) {
    // The usual case: a few digits, without a bigint.
    let c = first
    do {
      size = size * 10 + (c - char.zero)
      c = ++position < end ? bytes[position]! : 0
    } while (c >= char.zero && c <= char.nine && size < 1e14)
    if (c === char.comma || c === char.rightBracket || c === char.space) {
      scanner.position = position
      return size
    }
  }
  const value = scanner.readValue()
  return typeof value === 'bigint' && value >= 0n ? Number(value) : -1
}

/** Converts the elements when the earlier members say how; else keeps their position. */
function scanData(scanner: JsonScanner, limits: RequestLimits, input: InputDraft): void {
  input.dataStart = scanner.position
  input.isDataArray = scanner.peek() === char.leftBracket
  const { name, dataType, shape } = input
  if (
    input.isDataArray &&
    typeof name === 'string' &&
    typeof dataType === 'string' &&
    isDataType(dataType) &&
    isJsonType(dataType) &&
    typeof shape !== 'string'
  ) {
    const count = jsonElementCount(shape)
    if (count > 0 && count !== Infinity) {
      input.data = readTensorData(scanner, name, dataType, count, limits.maxInputBytes)
      return
    }
  }
  scanner.skipValue()
}

/** In Triton a shape without dimensions has no elements; a configuration cannot declare a scalar. */
export const jsonElementCount = (shape: Shape): number => (shape.length === 0 ? 0 : elementCount(shape))
