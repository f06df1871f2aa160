// One run on a GPU: which bytes go where, as a program for the thread of the GPU, and what comes of it.
//
// Owners and lifetimes:
// - Inputs and outputs lie in the lane's memory on the GPU, one behind the other; the lane belongs to one Instance.
// - A lone input that already lies on the GPU, in a client's region, is used in place. The request holds the region.
//   Not with CUDA graphs: a graph reads the same addresses each time.
// - The OrtValues are made for the run; `collect` or `abandon` releases them. Exactly one of the two follows.

import { deviceAddressOf } from '../../../cuda/device-bytes.ts'
import { GpuProgram } from '../../../cuda/gpu-program.ts'
import { ServerError } from '../../../base/server-error.ts'
import { onnxElementType } from '../../../tensor/data-type.ts'
import { gatherBytes } from '../../../tensor/gather.ts'
import type { Shape } from '../../../tensor/shape.ts'
import type { OutputPlace, OutputPlaces, RunInput, RunOutput, RunRequest } from '../onnx-session.ts'
import type { GpuTraits } from '../session-settings.ts'
import { takeAllocated } from './allocated-output.ts'
import { fillBatch, withoutFilling, type Filling } from './fill-batch.ts'
import { deviceAlignment, type GpuLane, type HostPlace } from './gpu-lane.ts'
import type { GpuValues } from './gpu-values.ts'
import { addressOf, cString, detach, type Address } from './ort-library.ts'
import { inputSlot, type InputSlot, type OutputSlot, type PlanContext } from './plan-slots.ts'
import { createStringValue } from './string-tensor.ts'

type PlannedInput = { readonly slot: InputSlot; readonly parts: readonly Uint8Array[]; readonly offset: number }
type PlannedOutput = {
  readonly slot: OutputSlot
  /** Without the rows that fill the batch up; null as that of the slot. */
  readonly shape: Shape | null
  readonly byteLength: number
  readonly offset: number
  readonly places: readonly OutputPlace[]
  /** All rows go to places on the GPU. */
  readonly isPlaced: boolean
  readonly hostOffset: number
}

export type PlanTraits = Pick<GpuTraits, 'hasGraphs' | 'batchSizes'>
const plainTraits: PlanTraits = { hasGraphs: false, batchSizes: [] }

type Collected = { readonly outputs: RunOutput[]; readonly release: (() => void) | null }

const alignUp = (size: number): number => Math.ceil(size / deviceAlignment) * deviceAlignment

export class GpuPlan {
  /** What the lane must have before `program`. */
  readonly deviceBytes: number
  /** What a batch of the largest size would need. */
  readonly roomBytes: number
  readonly hostBytes: number
  readonly hasBoundOutputs: boolean
  /** Equal for runs that one CUDA graph serves, at one address of the lane; null: no graph can. */
  readonly graphKey: string | null
  readonly #context: PlanContext
  /** Of `outputPlaces`: 1 where the model has no rows. */
  readonly #placedRows: number
  readonly #inputs: readonly PlannedInput[]
  readonly #outputs: readonly PlannedOutput[]
  readonly #inputValues: BigUint64Array
  readonly #outputValues: BigUint64Array
  // Native code reads these through their addresses only.
  readonly #kept: unknown[] = []
  #host: HostPlace | null = null

  /** Throws a ServerError for inputs that the model cannot take. */
  constructor(context: PlanContext, request: RunRequest, traits: PlanTraits = plainTraits) {
    this.#context = context
    this.#placedRows = request.outputPlaces?.rows ?? 0
    const { rows, filled, batchRows, given, slots } = fillBatch(context, request, traits.batchSizes)
    let offset = 0
    const inputs: PlannedInput[] = []
    for (const [index, input] of request.inputs.entries()) {
      const spec = context.inputs[index]
      if (input === null || spec === undefined) continue
      const slot = inputSlot(spec, index, given[index] ?? input, false)
      const planned = planInput(slot, input, { offset, rows, filled, isCopied: traits.hasGraphs })
      inputs.push(planned)
      if (planned.offset >= 0) offset = alignUp(offset + slot.byteLength)
    }
    this.#inputs = inputs
    let hostOffset = 0
    this.#outputs = slots.map((slot, position) => {
      const cut = { slot, ...withoutFilling(slot, rows, filled) }
      const { places, isPlaced } = placesOf(cut, position, request.outputPlaces ?? null)
      const planned = { ...cut, offset, places, isPlaced, hostOffset }
      if (slot.shape !== null) offset = alignUp(offset + slot.byteLength)
      if (slot.shape !== null && !isPlaced) hostOffset = alignUp(hostOffset + cut.byteLength)
      return planned
    })
    this.deviceBytes = offset
    this.roomBytes = alignUp(offset * Math.max(1, (traits.batchSizes.at(-1) ?? 0) / batchRows))
    this.graphKey = traits.hasGraphs ? graphKeyOf(inputs, this.#outputs, request.outputs) : null
    this.hostBytes = hostOffset
    this.hasBoundOutputs = this.#outputs.some(({ slot }) => slot.shape !== null)
    this.#inputValues = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, inputs.length)))
    this.#outputValues = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, this.#outputs.length)))
  }

  /** Copies in, runs, copies out. When it throws, it has released all values. */
  program(values: GpuValues, lane: GpuLane, session: Address, runOptions: Address): GpuProgram {
    try {
      const program = new GpuProgram()
      program.kept.push(this)
      program.mark()
      for (const [i, input] of this.#inputs.entries()) this.#placeInput(program, values, lane, i, input)
      program.wait()
      program.mark()
      for (const [i, { slot, offset }] of this.#outputs.entries()) {
        if (slot.shape === null || slot.spec.dataType === null) continue
        const place = { address: lane.deviceAddress + offset, byteLength: slot.byteLength }
        const { shapeAddress, shape } = slot
        const elementType = onnxElementType[slot.spec.dataType]
        this.#outputValues[i] = BigInt(values.create(place, { shapeAddress, rank: shape.length, elementType }))
      }
      program.run([
        session,
        runOptions,
        this.#namesAddress(this.#inputs.map(({ slot }) => slot.name)),
        addressOf(this.#inputValues),
        this.#inputs.length,
        this.#namesAddress(this.#outputs.map(({ slot }) => slot.spec.name)),
        this.#outputs.length,
        addressOf(this.#outputValues),
      ])
      program.mark()
      this.#takeOutputs(program, lane)
      program.wait()
      program.mark()
      return program
    } catch (reason) {
      this.abandon()
      throw reason
    }
  }

  /** After a run that succeeded. */
  collect(): Collected {
    const { library } = this.#context
    this.#release(this.#inputValues)
    for (const { slot } of this.#outputs) if (slot.shape === null) library.adoptValue()
    const outputs: RunOutput[] = []
    const held: { readonly value: Address; readonly bytes: Uint8Array }[] = []
    const host = this.#host
    this.#host = null
    try {
      for (const [i, { slot, shape, byteLength, isPlaced, hostOffset }] of this.#outputs.entries()) {
        if (shape === null) {
          const value = Number(this.#outputValues[i])
          this.#outputValues[i] = 0n
          const taken = takeAllocated(library, value, slot.spec)
          if (taken.value !== 0) held.push(taken)
          outputs.push({ shape: taken.shape, bytes: taken.bytes })
        } else if (isPlaced) outputs.push({ shape, bytes: noBytes, isPlaced })
        else outputs.push({ shape, bytes: host?.bytes.subarray(hostOffset, hostOffset + byteLength) ?? noBytes })
      }
    } catch (reason) {
      for (const { value } of held) library.releaseValue(value)
      host?.giveBack()
      this.abandon()
      throw reason
    }
    this.#release(this.#outputValues)
    if (host === null && held.length === 0) return { outputs, release: null }
    return {
      outputs,
      release: () => {
        host?.giveBack()
        for (const { value, bytes } of held) {
          detach(bytes)
          library.releaseValue(value)
        }
      },
    }
  }

  /** After a run that failed, or never began. */
  abandon(): void {
    this.#release(this.#inputValues)
    this.#release(this.#outputValues)
    this.#host?.giveBack()
    this.#host = null
  }

  #placeInput(
    program: GpuProgram,
    values: GpuValues,
    lane: GpuLane,
    i: number,
    { slot, parts, offset }: PlannedInput,
  ): void {
    const { shapeAddress, rank, elementType } = slot
    if (slot.byteLength < 0) {
      const bytes = parts.length === 1 ? (parts[0] as Uint8Array) : gatherBytes(parts)
      const { library } = this.#context
      const shape = slot.shape.subarray(0, rank)
      this.#inputValues[i] = BigInt(createStringValue(library, slot.name, bytes, shape, slot.elements))
      return
    }
    const inPlace = offset < 0 ? deviceAddressOf(parts[0] as Uint8Array) : 0
    const address = inPlace === 0 ? lane.deviceAddress + Math.max(0, offset) : inPlace
    const place = { address, byteLength: slot.byteLength }
    this.#inputValues[i] = BigInt(values.create(place, { shapeAddress, rank, elementType }))
    if (inPlace !== 0) return
    let at = address
    for (const part of parts) {
      const source = deviceAddressOf(part)
      if (part.byteLength === 0) continue
      if (source === 0) program.copyToDevice(at, addressOf(part), part.byteLength)
      else program.copyOnDevice(at, source, part.byteLength)
      program.kept.push(part)
      at += part.byteLength
    }
    // The rows that fill the batch up repeat its own: any other bytes could be values that the model cannot take.
    const end = address + slot.byteLength
    while (at < end && at > address) {
      const byteLength = Math.min(at - address, end - at)
      program.copyOnDevice(at, address, byteLength)
      at += byteLength
    }
  }

  #takeOutputs(program: GpuProgram, lane: GpuLane): void {
    if (this.hostBytes > 0) this.#host = lane.takeHost(this.hostBytes) ?? plainPlace(this.hostBytes)
    for (const { shape, byteLength, offset, places, isPlaced, hostOffset } of this.#outputs) {
      if (shape === null) continue
      const source = lane.deviceAddress + offset
      if (!isPlaced && this.#host !== null) {
        program.copyToHost(this.#host.address + hostOffset, source, byteLength)
      }
      const rowBytes = byteLength / Math.max(1, this.#placedRows)
      for (const { firstRow, rowCount, bytes } of places) {
        program.copyOnDevice(deviceAddressOf(bytes), source + firstRow * rowBytes, rowCount * rowBytes)
        program.kept.push(bytes)
      }
    }
    program.kept.push(this.#host)
  }

  #namesAddress(names: readonly string[]): Address {
    const texts = names.map(cString)
    const pointers = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, names.length)))
    for (const [i, text] of texts.entries()) pointers[i] = BigInt(addressOf(text))
    this.#kept.push(texts, pointers)
    return addressOf(pointers)
  }

  #release(values: BigUint64Array): void {
    const { library } = this.#context
    for (let i = 0; i < values.length; i++) {
      if (values[i] !== 0n) library.releaseValue(Number(values[i]))
      values[i] = 0n
    }
  }
}

/** Null: ONNX Runtime itself would have to allocate, which a graph cannot repeat. */
function graphKeyOf(
  inputs: readonly PlannedInput[],
  planned: readonly PlannedOutput[],
  outputs: readonly number[],
): string | null {
  if (inputs.some(({ slot }) => slot.byteLength < 0) || planned.some(({ slot }) => slot.shape === null)) return null
  return `${inputs.map(({ slot }) => `${slot.index}:${slot.shape.join('x')}`).join()};${outputs.join()}`
}

/** Offset -1: the input is used where it is. */
function planInput(
  slot: InputSlot,
  input: RunInput,
  { offset, rows, filled, isCopied }: Pick<Filling, 'rows' | 'filled'> & { offset: number; isCopied: boolean },
): PlannedInput {
  const parts = input.parts ?? [input.bytes]
  if (slot.byteLength < 0) return { slot, parts, offset: -1 }
  let byteLength = 0
  for (const part of parts) byteLength += part.byteLength
  const wanted = (slot.byteLength / filled) * rows
  if (byteLength !== wanted) {
    const text = `input '${slot.name}' must have ${wanted} bytes, got ${byteLength}`
    throw ServerError.withoutStack('INVALID_ARG', text)
  }
  const [first] = parts
  const address = parts.length === 1 && first !== undefined ? deviceAddressOf(first) : 0
  const isUsable = !isCopied && rows === filled && address !== 0 && address % deviceAlignment === 0
  return { slot, parts, offset: isUsable ? -1 : offset }
}

/** The places of an output that are large enough. The others get their bytes by way of the host, or an error there. */
function placesOf(
  { shape, byteLength }: Pick<PlannedOutput, 'shape' | 'byteLength'>,
  position: number,
  wanted: OutputPlaces | null,
): { readonly places: readonly OutputPlace[]; readonly isPlaced: boolean } {
  const none = { places: [], isPlaced: false }
  if (wanted === null || shape === null) return none
  // An output with other rows than its batch is refused later, by way of the host.
  if (wanted.isBatched && shape[0] !== wanted.rows) return none
  const rowBytes = byteLength / Math.max(1, wanted.rows)
  const places = wanted.places.filter(
    ({ output, rowCount, bytes }) => output === position && bytes.byteLength >= rowCount * rowBytes,
  )
  let rows = 0
  for (const { rowCount } of places) rows += rowCount
  return { places, isPlaced: rows === wanted.rows }
}

const noBytes = new Uint8Array(0)

function plainPlace(byteLength: number): HostPlace {
  const bytes = Buffer.allocUnsafeSlow(byteLength)
  return { address: addressOf(bytes), bytes, giveBack: () => undefined }
}
