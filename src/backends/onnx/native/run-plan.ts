// The arguments of a run with inputs of certain shapes: names, input values and places for the outputs.
//
// Owners and lifetimes:
// - A kept plan owns an OrtValue and a small buffer for each small input and output ("copied"); they live until `close`.
// - `prepare` makes the OrtValues of this one run (inputs in place, strings, outputs over pooled buffers); `collect` or
//   `abandon` releases them. Exactly one of the two follows each successful `prepare`.
// - Inputs in place are the request's own bytes: the runner holds the request until the run is over.
// - An output that ONNX Runtime allocated and that is large is a view on its memory; `release` of the result frees it.

import { ServerError } from '../../../base/server-error.ts'
import { onnxElementType } from '../../../tensor/data-type.ts'
import { shapesEqual, type Shape } from '../../../tensor/shape.ts'
import type { OnnxTensorSpec, RunInput, RunOutput } from '../onnx-session.ts'
import { takeAllocated, type AllocatedOutput } from './allocated-output.ts'
import { addressOf, cString, detach, type Address } from './ort-library.ts'
import { inputSlot, outputSlot, type InputSlot, type OutputSlot, type PlanContext } from './plan-slots.ts'
import { createStringValue } from './string-tensor.ts'

type Collected = { readonly outputs: RunOutput[]; readonly release: (() => void) | null }

const alignUp = (offset: number): number => (offset + 7) & ~7

export class RunPlan {
  readonly inputShapes: readonly (Shape | null)[]
  readonly outputIndexes: readonly number[]
  readonly isKept: boolean
  readonly inputCount: number
  readonly outputCount: number
  readonly inputNamesAddress: Address
  readonly outputNamesAddress: Address
  readonly inputValuesAddress: Address
  readonly outputValuesAddress: Address
  readonly hasBoundOutputs: boolean
  readonly #context: PlanContext
  readonly #inputSlots: readonly InputSlot[]
  readonly #outputSlots: readonly OutputSlot[]
  readonly #copiedBytes: number
  readonly #inputValues: BigUint64Array
  readonly #outputValues: BigUint64Array
  // Native code reads these through their addresses only.
  readonly #names: unknown[] = []
  // Aligned copies of this run's inputs. The OrtValues over these copies are released first.
  readonly #alignedCopies: (Uint8Array | null)[] = []

  /** Throws a ServerError for a shape that the model cannot take. */
  constructor(
    context: PlanContext,
    inputs: readonly (RunInput | null)[],
    outputIndexes: readonly number[],
    isKept: boolean,
  ) {
    this.#context = context
    this.isKept = isKept
    this.outputIndexes = outputIndexes
    this.inputShapes = inputs.map((input) => (input === null ? null : [...input.shape]))
    const slots: InputSlot[] = []
    for (const [index, input] of inputs.entries()) {
      const spec = context.inputs[index]
      if (input !== null && spec !== undefined) slots.push(inputSlot(spec, index, input, isKept))
    }
    this.#inputSlots = slots
    let offset = 0
    this.#outputSlots = outputIndexes.map((index) => {
      const slot = outputSlot(context, context.outputs[index] as OnnxTensorSpec, inputs, isKept, offset)
      if (slot.copy !== null) offset = alignUp(offset + slot.byteLength)
      return slot
    })
    this.#copiedBytes = offset
    this.hasBoundOutputs = this.#outputSlots.some((slot) => slot.shape !== null)
    this.inputCount = slots.length
    this.outputCount = outputIndexes.length
    this.inputNamesAddress = this.#namesAddress(slots.map((slot) => slot.name))
    this.outputNamesAddress = this.#namesAddress(this.#outputSlots.map((slot) => slot.spec.name))
    this.#inputValues = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, slots.length)))
    this.#outputValues = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, outputIndexes.length)))
    this.inputValuesAddress = addressOf(this.#inputValues)
    this.outputValuesAddress = addressOf(this.#outputValues)
    if (isKept) this.#keepValues()
  }

  /** HOT. Whether this plan is for inputs of these shapes and for these outputs. */
  fits(inputs: readonly (RunInput | null)[], outputIndexes: readonly number[]): boolean {
    const shapes = this.inputShapes
    if (inputs.length !== shapes.length) return false
    for (let i = 0; i < shapes.length; i++) {
      const input = inputs[i] as RunInput | null
      const shape = shapes[i] as Shape | null
      if (input === null || shape === null) {
        if (input !== shape) return false
      } else if (!shapesEqual(input.shape, shape)) return false
    }
    return outputIndexes === this.outputIndexes || shapesEqual(outputIndexes, this.outputIndexes)
  }

  /** HOT. Copies small inputs and creates the values of this run. When it throws, it has released all of them. */
  prepare(inputs: readonly (RunInput | null)[]): void {
    try {
      for (let i = 0; i < this.#inputSlots.length; i++) this.#prepareInput(i, this.#inputSlots[i] as InputSlot, inputs)
      for (let i = 0; i < this.#outputSlots.length; i++) this.#prepareOutput(i, this.#outputSlots[i] as OutputSlot)
    } catch (reason) {
      this.abandon()
      throw reason
    }
  }

  /** HOT. After a run that succeeded: takes the outputs and releases the values that `prepare` created. */
  collect(): Collected {
    this.#releaseInputs()
    for (let i = 0; i < this.#outputSlots.length; i++) {
      // From now on this plan owns the value that ONNX Runtime created.
      if ((this.#outputSlots[i] as OutputSlot).shape === null) this.#context.library.adoptValue()
    }
    const outputs: RunOutput[] = []
    let held: Held[] | null = null
    try {
      const copied = this.#copiedBytes === 0 ? null : Buffer.allocUnsafe(this.#copiedBytes)
      for (let i = 0; i < this.#outputSlots.length; i++) {
        const slot = this.#outputSlots[i] as OutputSlot
        if (slot.copy !== null && copied !== null && slot.shape !== null) {
          const bytes = copied.subarray(slot.offset, slot.offset + slot.byteLength)
          bytes.set(slot.copy)
          outputs.push({ shape: slot.shape, bytes })
        } else if (slot.pooled !== null && slot.shape !== null) {
          const bytes = slot.pooled
          slot.pooled = null
          this.#releaseOutput(i)
          outputs.push({ shape: slot.shape, bytes })
          held = [...(held ?? []), { value: 0, bytes }]
        } else {
          const taken = this.#takeAllocated(i, slot.spec)
          outputs.push({ shape: taken.shape, bytes: taken.bytes })
          if (taken.value !== 0) held = [...(held ?? []), { value: taken.value, bytes: taken.bytes }]
        }
      }
    } catch (reason) {
      for (const each of held ?? []) this.#letGo(each)
      this.abandon()
      throw reason
    }
    if (held === null) return { outputs, release: null }
    const owned = held
    return { outputs, release: () => owned.forEach((each) => this.#letGo(each)) }
  }

  /** After a run that failed, or never began. */
  abandon(): void {
    this.#releaseInputs()
    for (let i = 0; i < this.#outputSlots.length; i++) {
      const slot = this.#outputSlots[i] as OutputSlot
      if (slot.copy === null) this.#releaseOutput(i)
      if (slot.pooled !== null) this.#context.pool.giveBack(slot.pooled)
      slot.pooled = null
    }
  }

  /** Releases the kept values. Not during a run. */
  close(): void {
    const { library } = this.#context
    for (const values of [this.#inputValues, this.#outputValues]) {
      for (let i = 0; i < values.length; i++) {
        if (values[i] !== 0n) library.releaseValue(Number(values[i]))
        values[i] = 0n
      }
    }
  }

  #namesAddress(names: readonly string[]): Address {
    const texts = names.map(cString)
    const pointers = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, names.length)))
    for (const [i, text] of texts.entries()) pointers[i] = BigInt(addressOf(text))
    this.#names.push(texts, pointers)
    return addressOf(pointers)
  }

  #keepValues(): void {
    const { library } = this.#context
    try {
      for (const [i, { copy, shapeAddress, rank, elementType }] of this.#inputSlots.entries()) {
        if (copy !== null) this.#inputValues[i] = BigInt(library.createValue(copy, shapeAddress, rank, elementType))
      }
      for (const [i, { copy, shapeAddress, shape, spec }] of this.#outputSlots.entries()) {
        if (copy === null || shape === null || spec.dataType === null) continue
        const value = library.createValue(copy, shapeAddress, shape.length, onnxElementType[spec.dataType])
        this.#outputValues[i] = BigInt(value)
      }
    } catch (reason) {
      this.close()
      throw reason
    }
  }

  #prepareInput(i: number, slot: InputSlot, inputs: readonly (RunInput | null)[]): void {
    const { bytes } = inputs[slot.index] as RunInput
    const { library } = this.#context
    if (slot.byteLength < 0) {
      const value = createStringValue(library, slot.name, bytes, slot.shape.subarray(0, slot.rank), slot.elements)
      this.#inputValues[i] = BigInt(value)
      return
    }
    if (bytes.byteLength !== slot.byteLength) {
      throw ServerError.withoutStack(
        'INVALID_ARG',
        `input '${slot.name}' must have ${slot.byteLength} bytes, got ${bytes.byteLength}`,
      )
    }
    if (slot.copy !== null) {
      slot.copy.set(bytes)
      return
    }
    let source = bytes
    if (bytes.byteLength === 0) source = emptyPlace
    else if (addressOf(bytes) % slot.alignment !== 0) {
      source = Buffer.allocUnsafeSlow(bytes.byteLength)
      source.set(bytes)
      this.#alignedCopies[i] = source
    }
    const view = bytes.byteLength === 0 ? source.subarray(0, 0) : source
    this.#inputValues[i] = BigInt(library.createValue(view, slot.shapeAddress, slot.rank, slot.elementType))
  }

  #prepareOutput(i: number, slot: OutputSlot): void {
    if (slot.copy !== null) return
    this.#outputValues[i] = 0n
    if (slot.shape === null || slot.spec.dataType === null) return
    const buffer = this.#context.pool.take(slot.byteLength)
    slot.pooled = buffer
    const { library } = this.#context
    const value = library.createValue(buffer, slot.shapeAddress, slot.shape.length, onnxElementType[slot.spec.dataType])
    this.#outputValues[i] = BigInt(value)
  }

  #takeAllocated(i: number, spec: OnnxTensorSpec): AllocatedOutput {
    const value = Number(this.#outputValues[i])
    this.#outputValues[i] = 0n
    return takeAllocated(this.#context.library, value, spec)
  }

  #letGo({ value, bytes }: Held): void {
    if (value === 0) {
      this.#context.pool.giveBack(bytes)
      return
    }
    detach(bytes)
    this.#context.library.releaseValue(value)
  }

  #releaseInputs(): void {
    for (let i = 0; i < this.#inputSlots.length; i++) {
      if ((this.#inputSlots[i] as InputSlot).copy !== null || this.#inputValues[i] === 0n) continue
      this.#context.library.releaseValue(Number(this.#inputValues[i]))
      this.#inputValues[i] = 0n
      this.#alignedCopies[i] = null
    }
  }

  #releaseOutput(i: number): void {
    if (this.#outputValues[i] === 0n) return
    this.#context.library.releaseValue(Number(this.#outputValues[i]))
    this.#outputValues[i] = 0n
  }
}

/** `value` 0: `bytes` belong to the pool. */
type Held = Pick<AllocatedOutput, 'value' | 'bytes'>

// ONNX Runtime refuses a null pointer even for a tensor without elements.
const emptyPlace = new Uint8Array(new ArrayBuffer(8))
