// The body of Triton's generate endpoints → inputs and parameters. A key with the name of an input is a tensor,
// `parameters` is an object with more such keys, and every other key is a request parameter.

import { ServerError } from '../base/server-error.ts'
import { idPrefix } from '../model/id-prefix.ts'
import type { ParameterValue } from '../model/parameters.ts'
import { prefixedError, worded } from '../model/worded-error.ts'
import type { InputSpec, ModelSignature } from '../config/model-signature.ts'
import type { Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import { asString } from './json-access.ts'
import { char, JsonScanner } from './json-scanner.ts'
import { idTooLong, tooManyParameters, tooManyTensors, type RequestLimits } from './request-limits.ts'
import { isJsonType, noBytes, readTensorData } from './tensor-data-reader.ts'

export type ParsedGenerate = {
  readonly id: string
  readonly inputs: Tensor[]
  readonly parameters: ReadonlyMap<string, ParameterValue>
}

/** A key and where its value starts. */
type Member = { readonly name: string; readonly start: number; readonly isRepeated: boolean }

const nestedKey = 'parameters'
const maxInt64 = 2n ** 63n - 1n

const invalidArgument = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

/** Throws ServerError. An error of JSON syntax anywhere is reported before all other errors. */
export function readGenerateRequest(
  body: Uint8Array,
  signature: ModelSignature,
  limits: RequestLimits,
): ParsedGenerate {
  const scanner = new JsonScanner(body)
  const isObject = scanner.startDocument() === char.leftBrace
  const members = isObject ? scanMembers(scanner, limits) : []
  if (!isObject) scanner.skipValue()
  scanner.endDocument()
  if (!isObject) throw worded('notAnObject', { prefix: '', what: 'the request' })
  return new GenerateReader(scanner, signature, limits).read(members)
}

/**
 * Checks the object at the position to its end and notes its members. As in Triton a key that is there twice stands for
 * its first value, at its last place.
 */
function scanMembers(scanner: JsonScanner, limits: RequestLimits): Member[] {
  const members = new Map<string, Member>()
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    if (members.size === limits.maxParameters + limits.maxTensors) throw tooManyParameters(limits.maxParameters)
    const name = scanner.stringValue()
    const first = members.get(name)
    members.delete(name)
    members.set(name, { name, start: first?.start ?? scanner.position, isRepeated: first !== undefined })
    scanner.skipValue()
  }
  return [...members.values()]
}

class GenerateReader {
  readonly #scanner: JsonScanner
  readonly #signature: ModelSignature
  readonly #limits: RequestLimits
  readonly #inputs: Tensor[] = []
  readonly #parameters = new Map<string, ParameterValue>()
  #id = ''
  #inputBytes = 0

  constructor(scanner: JsonScanner, signature: ModelSignature, limits: RequestLimits) {
    this.#scanner = scanner
    this.#signature = signature
    this.#limits = limits
  }

  read(members: readonly Member[]): ParsedGenerate {
    this.#id = this.#readId(members)
    for (const member of members) {
      if (member.name === nestedKey) this.#readNested(member)
      else this.#readMember(member)
    }
    return { id: this.#id, inputs: this.#inputs, parameters: this.#parameters }
  }

  /** The id is also an ordinary parameter, as in Triton. */
  #readId(members: readonly Member[]): string {
    const member = members.find(({ name }) => name === 'id')
    if (member === undefined) return ''
    this.#scanner.position = member.start
    const id = asString(this.#scanner.readValue(), 'id')
    const bytes = Buffer.byteLength(id)
    if (bytes > this.#limits.maxIdBytes) throw idTooLong(bytes, this.#limits.maxIdBytes)
    return id
  }

  #readNested(member: Member): void {
    if (this.#signature.inputByName.has(nestedKey)) {
      throw invalidArgument(`Keyword '${nestedKey}' for nested schema also given as input tensor name`)
    }
    this.#scanner.position = member.start
    if (this.#scanner.peek() !== char.leftBrace) {
      throw worded('notANestedObject', { member: nestedKey })
    }
    try {
      for (const inner of scanMembers(this.#scanner, this.#limits)) this.#readMember(inner)
    } catch (reason) {
      throw prefixedError(reason, `Converting keyword: '${nestedKey}': `)
    }
  }

  #readMember(member: Member): void {
    const spec = this.#signature.inputByName.get(member.name)
    this.#scanner.position = member.start
    if (spec === undefined) this.#readParameter(member.name)
    else this.#readInput(spec, member.isRepeated)
  }

  /** Of a parameter beside `parameters` and one of the same name inside, the later one counts. */
  #readParameter(name: string): void {
    const value = this.#scanner.readValue()
    if (
      typeof value !== 'bigint' &&
      typeof value !== 'string' &&
      typeof value !== 'boolean' &&
      typeof value !== 'number'
    ) {
      throw invalidArgument(`parameter '${name}' has invalid type. It should be either 'int', 'bool', or 'string'.`)
    }
    const isNew = !this.#parameters.has(name)
    if (isNew && this.#parameters.size === this.#limits.maxParameters) {
      throw tooManyParameters(this.#limits.maxParameters)
    }
    this.#parameters.set(name, typeof value === 'bigint' && value > maxInt64 ? Number(value) : value)
  }

  #readInput(spec: InputSpec, isRepeated: boolean): void {
    const { name, dataType, dims } = spec
    const start = this.#scanner.position
    // Of nested arrays only the outer length counts.
    const count = countElements(this.#scanner)
    const shape = fitShape(name, this.#signature.isBatching ? [-1, ...dims] : dims, count)
    if (!isJsonType(dataType)) {
      throw invalidArgument(
        `receiving ${dataType} data via JSON is not supported. Please use the binary data format for input ${name}`,
      )
    }
    const bytes = count === 0 ? noBytes : this.#readElements(spec, start, count)
    if (isRepeated || this.#inputs.some((input) => input.name === name)) {
      throw invalidArgument(`${idPrefix(this.#id)}input '${name}' already exists in request`)
    }
    if (this.#inputs.length === this.#limits.maxTensors) throw tooManyTensors('inputs', this.#limits.maxTensors)
    this.#countBytes(name, bytes.length)
    this.#inputs.push(new Tensor(name, dataType, shape, bytes))
  }

  #readElements(spec: InputSpec, start: number, count: number): Uint8Array {
    const scanner = this.#scanner
    const end = scanner.position
    scanner.position = start
    let source = scanner
    // A single number is read as an array of one element. (Single strings need no array.)
    if (spec.dataType !== 'BYTES' && scanner.peek() !== char.leftBracket) {
      source = new JsonScanner(Buffer.concat([openBracket, scanner.bytes.subarray(start, end), closeBracket]))
    }
    const data = readTensorData(source, spec.name, spec.dataType, count, this.#limits.maxInputBytes)
    if (data.error !== null) throw data.error
    return data.bytes
  }

  #countBytes(name: string, bytes: number): void {
    this.#inputBytes += bytes
    const limit = this.#limits.maxInputBytes
    if (this.#inputBytes <= limit) return
    throw invalidArgument(
      `request size of ${this.#inputBytes} bytes with input '${name}' of size ${bytes} bytes exceeds the maximum allowed ` +
        `input size of ${limit}. Use --http-max-input-size to increase the limit.`,
    )
  }
}

const openBracket = Buffer.from('[')
const closeBracket = Buffer.from(']')

/** Skips the value at the position and returns its number of elements; 1 for a value that is not an array. */
function countElements(scanner: JsonScanner): number {
  if (scanner.peek() !== char.leftBracket) {
    scanner.skipValue()
    return 1
  }
  let count = 0
  for (let isElement = scanner.nextElement(true); isElement; isElement = scanner.nextElement(false)) {
    scanner.skipValue()
    count++
  }
  return count
}

/** Divides the elements by the fixed dimensions; the innermost open dimension gets the rest, other open ones are 1. */
function fitShape(name: string, dims: Shape, count: number): Shape {
  let rest = count
  for (const size of dims) {
    if (size < 0) continue
    if (size === 0 || rest % size !== 0) throw misfit(name, dims, count)
    rest /= size
  }
  const shape = [...dims]
  for (let i = shape.length - 1; i >= 0; i--) {
    if ((shape[i] as number) >= 0) continue
    shape[i] = rest
    rest = 1
  }
  if (rest !== 1) throw misfit(name, dims, count)
  return shape
}

const misfit = (input: string, dims: Shape, count: number): ServerError =>
  worded('generateShape', { input, dims, count })
