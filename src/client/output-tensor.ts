import type { DataType, ElementsOf, FixedSizeType } from '../tensor/data-type.ts'
import { bf16Value, fp16Value } from '../tensor/half-float.ts'
import type { Shape } from '../tensor/shape.ts'
import { InferenceError } from './inference-error.ts'
import type { ParameterValue } from './infer-request.ts'
import { bytesElements, typedValues, type TypedArray } from './tensor-data.ts'

/** What `as(type)` gives: FP16 and BF16 as their bits; `float32()` turns those into numbers. */
export type ValuesOfType = { readonly [T in FixedSizeType]: ElementsOf<T> } & { readonly BYTES: readonly Uint8Array[] }

/** One line of a classification: `0.98:3:three`. */
export type ClassScore = { readonly value: number; readonly index: number; readonly label: string | null }

const decoder = new TextDecoder()

/** One output of an answer. It can be given to the next `infer` as an input. */
export class OutputTensor {
  readonly name: string
  readonly dataType: DataType
  readonly shape: Shape
  readonly parameters: Readonly<Record<string, ParameterValue>>
  /** The elements as little-endian bytes; empty when the output went to shared memory. */
  readonly bytes: Uint8Array

  constructor(
    name: string,
    dataType: DataType,
    shape: Shape,
    bytes: Uint8Array,
    parameters: Readonly<Record<string, ParameterValue>> = {},
  ) {
    this.name = name
    this.dataType = dataType
    this.shape = shape
    this.bytes = bytes
    this.parameters = parameters
  }

  /** The elements in the array of their type: a view on the answer where alignment allows. */
  get data(): TypedArray | readonly Uint8Array[] {
    return this.dataType === 'BYTES' ? bytesElements(this.name, this.bytes) : typedValues(this.dataType, this.bytes)
  }

  /** The same, with the type known to the compiler. Throws when the tensor has another. */
  as<Type extends DataType>(dataType: Type): ValuesOfType[Type] {
    if (dataType !== this.dataType) {
      throw InferenceError.ofArgument(`output '${this.name}' is of type ${this.dataType}, not ${dataType}`)
    }
    return this.data as ValuesOfType[Type]
  }

  /** Every numeric type as FP32, FP16 and BF16 included. A view when it is FP32 already. */
  float32(): Float32Array {
    if (this.dataType === 'FP32') return this.as('FP32')
    const data = this.#numbers()
    const convert = this.dataType === 'FP16' ? fp16Value : this.dataType === 'BF16' ? bf16Value : Number
    const values = new Float32Array(data.length)
    for (let i = 0; i < data.length; i++) values[i] = convert(data[i] as number)
    return values
  }

  /** Plain numbers. INT64 and UINT64 beyond 2^53 would lose digits, so those throw: use `as('INT64')`. */
  numbers(): number[] {
    if (this.dataType === 'FP16' || this.dataType === 'BF16') return Array.from(this.float32())
    return Array.from<number | bigint, number>(this.#numbers(), (value) => {
      const number = Number(value)
      if (typeof value === 'bigint' && !Number.isSafeInteger(number)) {
        throw InferenceError.ofArgument(
          `output '${this.name}': ${value} does not fit a number, use as('${this.dataType}')`,
        )
      }
      return number
    })
  }

  booleans(): boolean[] {
    return Array.from(this.as('BOOL'), (value) => value !== 0)
  }

  /** BYTES as UTF-8 text. */
  strings(): string[] {
    return this.as('BYTES').map((element) => decoder.decode(element))
  }

  /** What an output asked for with `classification` holds, one list per row of the batch. */
  classes(): ClassScore[][] {
    const scores = this.strings().map((line): ClassScore => {
      const [value = '', index = '', ...label] = line.split(':')
      return { value: Number(value), index: Number(index), label: label.length === 0 ? null : label.join(':') }
    })
    const perRow = this.shape.length > 1 ? (this.shape.at(-1) ?? 0) : scores.length
    if (scores.length > 0 && !(perRow >= 1)) {
      throw new InferenceError('PROTOCOL', `output '${this.name}' of ${scores.length} classes has the shape [${this.shape.join()}]`) // prettier-ignore
    }
    const rows: ClassScore[][] = []
    for (let at = 0; at < scores.length; at += perRow) rows.push(scores.slice(at, at + perRow))
    return rows
  }

  #numbers(): TypedArray {
    if (this.dataType === 'BYTES') {
      throw InferenceError.ofArgument(`output '${this.name}' is of type BYTES: read it with strings() or as('BYTES')`)
    }
    return typedValues(this.dataType, this.bytes)
  }
}
