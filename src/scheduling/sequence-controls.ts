// Control inputs: tensors of one element that tell a model about the sequence of a request.

import { encodeBytesElements } from '../tensor/bytes-elements.ts'
import { dataTypeOfConfig, elementBytes, type DataType } from '../tensor/data-type.ts'
import type { Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { ModelConfig, ModelSequenceBatchingControl } from '../config/model-config.ts'

/** A control with two values. Both tensors are made once, because a model never writes into its inputs. */
type FlagControl = {
  readonly isSet: (request: InferenceRequest) => boolean
  readonly whenFalse: Tensor
  readonly whenTrue: Tensor
}

export class SequenceControls {
  /** The names and types of the control inputs, which the model gets beside its other inputs. */
  readonly inputs: readonly { readonly name: string; readonly dataType: DataType }[]
  /** True when a control tells the model which places of a batch are empty. */
  readonly hasReady: boolean
  readonly #modelName: string
  readonly #flags: readonly FlagControl[]
  readonly #ids: readonly { readonly name: string; readonly dataType: DataType }[]
  readonly #shape: Shape

  constructor(config: ModelConfig) {
    this.#modelName = config.name
    this.#shape = config.maxBatchSize > 0 ? [1, 1] : [1]
    const controls = (config.sequenceBatching?.controlInput ?? []).flatMap(({ name, control }) =>
      control.map((each) => ({ name, control: each })),
    )
    this.#flags = controls.flatMap(({ name, control }) => flagControl(name, control, this.#shape))
    this.#ids = controls
      .filter(({ control }) => control.kind === 'CONTROL_SEQUENCE_CORRID')
      .map(({ name, control }) => ({ name, dataType: dataTypeOfConfig(control.dataType) ?? 'UINT64' }))
    this.inputs = [...this.#flags.map(({ whenTrue: { name, dataType } }) => ({ name, dataType })), ...this.#ids]
    this.hasReady = controls.some(({ control }) => control.kind === 'CONTROL_SEQUENCE_READY')
  }

  /** Why the model's control cannot carry the correlation id; null when it can. */
  problem({ correlationId }: InferenceRequest): string | null {
    // A request without an id gets a number from the scheduler.
    if (correlationId === 0n) return null
    const given = typeof correlationId === 'string' ? 'BYTES' : 'UINT64'
    for (const { name, dataType } of this.#ids) {
      if ((dataType === 'BYTES') === (given === 'BYTES')) continue
      return `sequence batching control '${name}' data-type is '${given}', but model '${this.#modelName}' expects '${dataType}'`
    }
    return null
  }

  /** `isReady` is false for an empty place, which belongs to no sequence. HOT: once per execution. */
  append(inputs: Tensor[], request: InferenceRequest, isReady = true): void {
    for (const { isSet, whenFalse, whenTrue } of this.#flags) {
      inputs.push(isReady && isSet(request) ? whenTrue : whenFalse)
    }
    for (const { name, dataType } of this.#ids) {
      const id = isReady ? request.correlationId : 0n
      inputs.push(new Tensor(name, dataType, this.#shape, idBytes(id, dataType)))
    }
  }
}

const isSetByKind = {
  CONTROL_SEQUENCE_START: (request: InferenceRequest): boolean => request.isSequenceStart,
  CONTROL_SEQUENCE_END: (request: InferenceRequest): boolean => request.isSequenceEnd,
  CONTROL_SEQUENCE_READY: (): boolean => true,
} as const

function flagControl(name: string, control: ModelSequenceBatchingControl, shape: Shape): FlagControl[] {
  if (control.kind === 'CONTROL_SEQUENCE_CORRID') return []
  const { int32FalseTrue, fp32FalseTrue, boolFalseTrue } = control
  const values = (): [DataType, Uint8Array, Uint8Array] => {
    if (int32FalseTrue.length > 0)
      return ['INT32', ...pair(int32FalseTrue, (view, value) => view.setInt32(0, value, true), 4)]
    if (fp32FalseTrue.length > 0)
      return ['FP32', ...pair(fp32FalseTrue, (view, value) => view.setFloat32(0, value, true), 4)]
    return ['BOOL', ...pair(boolFalseTrue.map(Number), (view, value) => view.setUint8(0, value), 1)]
  }
  const [dataType, whenFalse, whenTrue] = values()
  const tensor = (bytes: Uint8Array): Tensor => new Tensor(name, dataType, shape, bytes)
  return [{ isSet: isSetByKind[control.kind], whenFalse: tensor(whenFalse), whenTrue: tensor(whenTrue) }]
}

function pair(
  values: readonly number[],
  write: (view: DataView, value: number) => void,
  bytes: number,
): [Uint8Array, Uint8Array] {
  const encode = (value: number): Uint8Array => {
    const encoded = new Uint8Array(bytes)
    write(new DataView(encoded.buffer), value)
    return encoded
  }
  return [encode(values[0] ?? 0), encode(values[1] ?? 1)]
}

/** A 32-bit control gets the low 32 bits, as in Triton; a string control gets the scheduler's own number in decimal. */
function idBytes(id: bigint | string, dataType: DataType): Uint8Array {
  if (dataType === 'BYTES') return encodeBytesElements([String(id)])
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, BigInt.asUintN(64, BigInt(id)), true)
  return bytes.subarray(0, elementBytes[dataType])
}
