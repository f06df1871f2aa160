// The elements of one output as nested lists of JSON: KServe v1 and TensorFlow Serving answer with them. nested-values.ts reads
// such lists.

import { elementBytes, type DataType } from '../tensor/data-type.ts'
import { elementCount, type Shape } from '../tensor/shape.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { maxNumberBytes } from './json-number-writer.ts'
import type { JsonTextWriter } from './json-text-writer.ts'
import { numberAt, outputMismatch, type NumberAt } from './tensor-data-writer.ts'

/** Room in the buffer is reserved for so many numbers at a time. */
const chunkElements = 1024

type ElementForm = (view: DataView, index: number) => string
/** How a protocol prints elements of a type, where v2 prints them in another form. */
export type ElementForms = Partial<Record<DataType, ElementForm>>

/** What stands around and between the items of a list or an object. */
type Layout = { readonly open: string; readonly between: string; readonly close: string }

export function printList(
  writer: JsonTextWriter,
  { open, between, close }: Layout,
  count: number,
  print: (index: number) => void,
): void {
  writer.raw(open)
  for (let i = 0; i < count; i++) {
    if (i > 0) writer.raw(between)
    print(i)
  }
  writer.raw(close)
}

/** Outputs as the members of an object. */
export function printByName(
  writer: JsonTextWriter,
  layout: Layout & { readonly colon: string },
  outputs: readonly NestedPrinter[],
  print: (output: NestedPrinter) => void,
): void {
  printList(writer, layout, outputs.length, (i) => {
    const output = outputs[i] as NestedPrinter
    writer.string(output.name)
    writer.raw(layout.colon)
    print(output)
  })
}

const booleanForm: ElementForm = (view, index) => (view.getUint8(index) === 0 ? 'false' : 'true')

/** Prints the elements of an output in their order: all of them, or row by row. HOT: once per output. */
export abstract class NestedPrinter {
  readonly name: string
  readonly shape: Shape
  protected readonly writer: JsonTextWriter
  protected readonly bytes: Uint8Array
  readonly #view: DataView
  readonly #comma: string
  readonly #formAt: ElementForm | null
  /** Null for texts, and for types with a form of their own. */
  readonly #numberAt: NumberAt | null
  #index = 0
  /** Of the next text. */
  #position = 0

  /** `comma` stands between the elements of a list that is on one line. Throws INTERNAL. */
  constructor(writer: JsonTextWriter, tensor: Tensor, comma: string, forms: ElementForms) {
    const { name, dataType, shape, bytes } = tensor
    this.name = name
    this.shape = shape
    this.writer = writer
    this.bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#comma = comma
    this.#formAt = forms[dataType] ?? (dataType === 'BOOL' ? booleanForm : null)
    this.#numberAt = numberAt[dataType] ?? null
    const width = elementBytes[dataType]
    if (width > 0 && bytes.length !== elementCount(shape) * width) throw outputMismatch(name)
  }

  /** Prints the text in `bytes` between the two places. */
  protected abstract printText(start: number, end: number, indent: string | null): void

  /** Dimension `depth` and those inside it. `indent` null: on one line. */
  print(depth: number, indent: string | null = null): void {
    const { writer, shape } = this
    if (depth >= shape.length) {
      this.#printOne(indent)
      return
    }
    const inner = indent === null ? null : `${indent}    `
    const between = inner === null ? this.#comma : `,\n${inner}`
    const size = shape[depth] as number
    writer.raw('[')
    if (inner !== null && size > 0) writer.raw(`\n${inner}`)
    if (depth === shape.length - 1) this.#printElements(size, between, inner)
    else {
      for (let i = 0; i < size; i++) {
        if (i > 0) writer.raw(between)
        this.print(depth + 1, inner)
      }
    }
    writer.raw(indent === null || size === 0 ? ']' : `\n${indent}]`)
  }

  #printElements(count: number, between: string, indent: string | null): void {
    if (this.#formAt === null && this.#numberAt !== null) {
      this.#printNumbers(count, between, this.#numberAt)
      return
    }
    for (let i = 0; i < count; i++) {
      if (i > 0) this.writer.raw(between)
      this.#printOne(indent)
    }
  }

  /** HOT: once per element. bench/tfserving.bench.ts */
  #printNumbers(count: number, between: string, writeAt: NumberAt): void {
    const { writer } = this
    for (let start = 0; start < count; start += chunkElements) {
      const end = Math.min(count, start + chunkElements)
      writer.reserve((end - start) * (maxNumberBytes + between.length))
      const { bytes } = writer
      let at = writer.length
      for (let i = start; i < end; i++) {
        if (i > 0) for (let k = 0; k < between.length; k++) bytes[at++] = between.charCodeAt(k)
        at = writeAt(bytes, at, this.#view, this.#index++)
      }
      writer.length = at
    }
  }

  #printOne(indent: string | null): void {
    const { writer } = this
    if (this.#formAt !== null) writer.raw(this.#formAt(this.#view, this.#index++))
    else if (this.#numberAt === null) this.#printNextText(indent)
    else {
      writer.reserve(maxNumberBytes)
      writer.length = this.#numberAt(writer.bytes, writer.length, this.#view, this.#index++)
    }
  }

  #printNextText(indent: string | null): void {
    const { bytes } = this
    const start = this.#position + 4
    const end = start > bytes.length ? Infinity : start + this.#view.getUint32(this.#position, true)
    if (end > bytes.length) throw outputMismatch(this.name)
    this.#position = end
    this.printText(start, end, indent)
  }
}
