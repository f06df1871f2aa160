// Reads what an .onnx file says about itself (names, types, shapes, operators) without loading the model.
// A file may be gigabytes of weights or may be hostile: weights are skipped by seeking, every length is checked against
// its parent's, and counts, text and depth have limits. Field numbers are those of onnx.proto3.

import { open, type FileHandle } from 'node:fs/promises'
import { ServerError } from '../base/server-error.ts'
import { dataTypeOfOnnx, elementBytes, isDataType, type DataType } from '../tensor/data-type.ts'
import { ProtobufCursor } from '../protobuf/protobuf-cursor.ts'
import { mostNodesKept, type OnnxNode } from './value-driven-work.ts'

export type OnnxFileTensor = {
  readonly name: string
  /** Null when it is no tensor, or a tensor of a type that the protocol does not have. */
  readonly dataType: DataType | null
  /** `FP32`, `FLOAT8E4M3FN`, `sequence(FP32)`, `map`… */
  readonly typeText: string
  /** A number is fixed, a string is the name of an open dimension, null is open without a name. Null: no shape at all. */
  readonly shape: readonly (number | string | null)[] | null
}

export type OnnxFile = {
  readonly fileBytes: number
  readonly irVersion: number
  readonly producerName: string
  readonly producerVersion: string
  readonly domain: string
  readonly modelVersion: number
  readonly description: string
  readonly graphName: string
  /** Operator sets, the default one under the name `ai.onnx`. */
  readonly opsets: readonly { readonly domain: string; readonly version: number }[]
  /** Inputs without an initializer: a request must bring them. */
  readonly inputs: readonly OnnxFileTensor[]
  /** Inputs that have an initializer: a request may bring them. */
  readonly optionalInputs: readonly OnnxFileTensor[]
  readonly outputs: readonly OnnxFileTensor[]
  readonly nodeCount: number
  /** How often each operator is used, sub-graphs included. */
  readonly operators: ReadonlyMap<string, number>
  /** The nodes of the model's own graph in their order; null when there are very many. */
  readonly nodes: readonly OnnxNode[] | null
  readonly initializerCount: number
  /** Bytes of weights, in the file and in external files. */
  readonly initializerBytes: number
  /** Files with weights, as the model names them: relative to its folder. The names are not checked. */
  readonly externalFiles: readonly string[]
  readonly metadata: ReadonlyMap<string, string>
}

const limits = { text: 64 * 1024, tensors: 100_000, metadata: 1000, dims: 256, depth: 16, operators: 10_000 } as const

/** Element types that the protocol does not have, by their number in TensorProto. */
const otherElementTypes: Readonly<Record<number, string>> = {
  0: 'UNDEFINED',
  14: 'COMPLEX64',
  15: 'COMPLEX128',
  17: 'FLOAT8E4M3FN',
  18: 'FLOAT8E4M3FNUZ',
  19: 'FLOAT8E5M2',
  20: 'FLOAT8E5M2FNUZ',
  21: 'UINT4',
  22: 'INT4',
  23: 'FLOAT4E2M1',
}

const typeName = (elementType: number): string =>
  dataTypeOfOnnx(elementType) ?? otherElementTypes[elementType] ?? `type ${elementType}`
const protocolType = (name: string): DataType | null => (isDataType(name) ? name : null)

/** Rejects with a ServerError that names the position of the first byte that makes no sense. */
export async function readOnnxFile(path: string): Promise<OnnxFile> {
  const file = await open(path, 'r')
  try {
    return await new Reader(path, file, (await file.stat()).size).read()
  } finally {
    await file.close()
  }
}

class Reader {
  readonly #cursor: ProtobufCursor
  readonly #path: string
  readonly #fileBytes: number
  #irVersion = 0
  #producerName = ''
  #producerVersion = ''
  #domain = ''
  #modelVersion = 0
  #description = ''
  #graphName = ''
  #hasGraph = false
  #nodeCount = 0
  #initializerBytes = 0
  readonly #opsets: { domain: string; version: number }[] = []
  readonly #inputs: OnnxFileTensor[] = []
  readonly #outputs: OnnxFileTensor[] = []
  readonly #operators = new Map<string, number>()
  readonly #nodes: OnnxNode[] = []
  readonly #initializers = new Set<string>()
  readonly #externalFiles = new Set<string>()
  readonly #metadata = new Map<string, string>()

  constructor(path: string, file: FileHandle, fileBytes: number) {
    this.#path = path
    this.#fileBytes = fileBytes
    this.#cursor = new ProtobufCursor(file, (position, problem) => this.#corrupt(position, problem))
  }

  async read(): Promise<OnnxFile> {
    await this.#readModel()
    if (!this.#hasGraph) throw this.#corrupt(this.#fileBytes, 'it has no graph')
    return {
      fileBytes: this.#fileBytes,
      irVersion: this.#irVersion,
      producerName: this.#producerName,
      producerVersion: this.#producerVersion,
      domain: this.#domain,
      modelVersion: this.#modelVersion,
      description: this.#description,
      graphName: this.#graphName,
      opsets: this.#opsets,
      inputs: this.#inputs.filter((input) => !this.#initializers.has(input.name)),
      optionalInputs: this.#inputs.filter((input) => this.#initializers.has(input.name)),
      outputs: this.#outputs,
      nodeCount: this.#nodeCount,
      operators: this.#operators,
      nodes: this.#nodes.length > mostNodesKept ? null : this.#nodes,
      initializerCount: this.#initializers.size,
      initializerBytes: this.#initializerBytes,
      externalFiles: [...this.#externalFiles],
      metadata: this.#metadata,
    }
  }

  #corrupt(position: number, problem: string): ServerError {
    const text = `'${this.#path}' is not a readable ONNX file: at byte ${position}, ${problem}`
    return new ServerError('INVALID_ARG', text)
  }

  #text(length: number): Promise<string> {
    return this.#cursor.text(length, limits.text)
  }

  #counted(count: number, limit: number, what: string): void {
    if (count >= limit) throw this.#corrupt(this.#cursor.position, `there are more than ${limit} ${what}`)
  }

  async #readModel(): Promise<void> {
    await this.#cursor.eachField(this.#fileBytes, async (field, value, end) => {
      if (field === 1) this.#irVersion = value
      else if (field === 2) this.#producerName = await this.#text(value)
      else if (field === 3) this.#producerVersion = await this.#text(value)
      else if (field === 4) this.#domain = await this.#text(value)
      else if (field === 5) this.#modelVersion = value
      else if (field === 6) this.#description = await this.#text(value)
      else if (field === 7) {
        this.#hasGraph = true
        await this.#readGraph(end, 0)
      } else if (field === 8) await this.#readOpset(end)
      else if (field === 14) await this.#readMetadata(end)
      else if (field === 25) await this.#readFunction(end)
    })
  }

  async #readOpset(end: number): Promise<void> {
    this.#counted(this.#opsets.length, limits.metadata, 'operator sets')
    let domain = ''
    let version = 0
    await this.#cursor.eachField(end, async (field, value) => {
      if (field === 1) domain = await this.#text(value)
      else if (field === 2) version = value
    })
    this.#opsets.push({ domain: domain === '' ? 'ai.onnx' : domain, version })
  }

  async #readMetadata(end: number): Promise<void> {
    this.#counted(this.#metadata.size, limits.metadata, 'metadata entries')
    const [key, value] = await this.#readEntry(end)
    this.#metadata.set(key, value)
  }

  async #readEntry(end: number): Promise<[key: string, value: string]> {
    const entry: [string, string] = ['', '']
    await this.#cursor.eachField(end, async (field, value) => {
      if (field === 1 || field === 2) entry[field - 1] = await this.#text(value)
    })
    return entry
  }

  async #readFunction(end: number): Promise<void> {
    await this.#cursor.eachField(end, async (field, _value, nodeEnd) => {
      if (field === 7) await this.#readNode(nodeEnd, 1)
    })
  }

  /** Depth 0 is the model's own graph; the others are bodies of Loop, If and Scan. */
  async #readGraph(end: number, depth: number): Promise<void> {
    if (depth > limits.depth) throw this.#corrupt(this.#cursor.position, 'graphs are nested too deeply')
    await this.#cursor.eachField(end, async (field, value, fieldEnd) => {
      if (field === 1) await this.#readNode(fieldEnd, depth)
      else if (field === 5) await this.#readInitializer(fieldEnd, depth)
      else if (depth > 0) return
      else if (field === 2) this.#graphName = await this.#text(value)
      else if (field === 11) await this.#readValue(this.#inputs, fieldEnd)
      else if (field === 12) await this.#readValue(this.#outputs, fieldEnd)
    })
  }

  async #readNode(end: number, depth: number): Promise<void> {
    this.#nodeCount++
    const isKept = depth === 0 && this.#nodes.length <= mostNodesKept
    let [operator, domain] = ['', '']
    const inputs: string[] = []
    const outputs: string[] = []
    await this.#cursor.eachField(end, async (field, value, fieldEnd) => {
      if (field === 4) {
        operator = await this.#text(value)
        this.#counted(this.#operators.size, limits.operators, 'kinds of operators')
        this.#operators.set(operator, (this.#operators.get(operator) ?? 0) + 1)
      } else if (field === 5) await this.#readAttribute(fieldEnd, depth)
      else if (isKept && (field === 1 || field === 2)) {
        const names = field === 1 ? inputs : outputs
        this.#counted(names.length, limits.tensors, 'inputs or outputs of a node')
        names.push(await this.#text(value))
      } else if (isKept && field === 7) domain = await this.#text(value)
    })
    if (isKept) this.#nodes.push({ operator, domain, inputs, outputs })
  }

  async #readAttribute(end: number, depth: number): Promise<void> {
    await this.#cursor.eachField(end, async (field, _value, fieldEnd) => {
      if (field === 6 || field === 11) await this.#readGraph(fieldEnd, depth + 1)
    })
  }

  async #readInitializer(end: number, depth: number): Promise<void> {
    this.#counted(this.#initializers.size, limits.tensors, 'initializers')
    let name = ''
    let elements = 1
    let elementType = 0
    let storedBytes = -1
    await this.#cursor.eachField(end, async (field, value, fieldEnd, isPacked) => {
      if (field === 1 && !isPacked) elements *= Math.max(0, value)
      else if (field === 1) await this.#cursor.eachVarint(fieldEnd, (dim) => (elements *= Math.max(0, dim)))
      else if (field === 2) elementType = value
      else if (field === 8) name = await this.#text(value)
      else if (field === 9) storedBytes = value
      else if (field === 13) {
        const [key, text] = await this.#readEntry(fieldEnd)
        if (key === 'location') this.#externalFiles.add(text)
        if (key === 'length' && /^\d{1,15}$/.test(text)) storedBytes = Number(text)
      }
    })
    const type = protocolType(typeName(elementType))
    this.#initializerBytes += storedBytes >= 0 ? storedBytes : elements * (type === null ? 1 : elementBytes[type])
    this.#counted(this.#externalFiles.size, limits.tensors, 'external files')
    if (depth === 0) this.#initializers.add(name)
  }

  async #readValue(values: OnnxFileTensor[], end: number): Promise<void> {
    this.#counted(values.length, limits.tensors, 'inputs or outputs')
    let tensor: OnnxFileTensor = { name: '', dataType: null, typeText: 'UNDEFINED', shape: null }
    await this.#cursor.eachField(end, async (field, value, fieldEnd) => {
      if (field === 1) tensor = { ...tensor, name: await this.#text(value) }
      else if (field === 2) tensor = { ...tensor, ...(await this.#readType(fieldEnd, 0)) }
    })
    values.push(tensor)
  }

  async #readType(end: number, depth: number): Promise<Omit<OnnxFileTensor, 'name'>> {
    if (depth > limits.depth) throw this.#corrupt(this.#cursor.position, 'types are nested too deeply')
    let type: Omit<OnnxFileTensor, 'name'> = { dataType: null, typeText: 'UNDEFINED', shape: null }
    const inner = async (innerEnd: number): Promise<string> => {
      let text = ''
      await this.#cursor.eachField(innerEnd, async (field, _value, fieldEnd) => {
        if (field === 1) text = (await this.#readType(fieldEnd, depth + 1)).typeText
      })
      return text
    }
    await this.#cursor.eachField(end, async (field, _value, fieldEnd) => {
      if (field === 1) type = await this.#readTensorType(fieldEnd)
      else if (field === 4) type = { dataType: null, typeText: `sequence(${await inner(fieldEnd)})`, shape: null }
      else if (field === 5) type = { dataType: null, typeText: 'map', shape: null }
      else if (field === 8) type = { dataType: null, typeText: 'sparse tensor', shape: null }
      else if (field === 9) type = { dataType: null, typeText: `optional(${await inner(fieldEnd)})`, shape: null }
    })
    return type
  }

  async #readTensorType(end: number): Promise<Omit<OnnxFileTensor, 'name'>> {
    let typeText = 'UNDEFINED'
    let shape: (number | string | null)[] | null = null
    await this.#cursor.eachField(end, async (field, value, fieldEnd) => {
      if (field === 1) typeText = typeName(value)
      else if (field === 2) {
        const dims: (number | string | null)[] = []
        await this.#cursor.eachField(fieldEnd, async (dimField, _value, dimEnd) => {
          this.#counted(dims.length, limits.dims, 'dimensions')
          if (dimField === 1) dims.push(await this.#readDimension(dimEnd))
        })
        shape = dims
      }
    })
    return { dataType: protocolType(typeText), typeText, shape }
  }

  async #readDimension(end: number): Promise<number | string | null> {
    let dim: number | string | null = null
    await this.#cursor.eachField(end, async (field, value) => {
      if (field === 1) dim = value < 0 ? null : value
      else if (field === 2) dim = (await this.#text(value)) || null
    })
    return dim
  }
}
