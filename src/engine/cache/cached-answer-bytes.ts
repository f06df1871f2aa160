// An answer as one run of bytes, for a cache outside this process: a length, a head in JSON, then the outputs' bytes.

import type { ParameterValue } from '../../model/parameters.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { elementBytes, isDataType } from '../../tensor/data-type.ts'
import { elementCount } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { CachedAnswer } from '../../model/response-cache.ts'

type Head = {
  readonly outputs: readonly (readonly [name: string, dataType: string, shape: readonly number[], byteSize: number])[]
  /** JSON has no bigint: an integer is marked as one and written as text. */
  readonly parameters: readonly (readonly [name: string, kind: 'integer' | 'other', value: unknown])[] | null
}

export function encodeAnswer(response: InferenceResponse): Buffer {
  const head: Head = {
    outputs: response.outputs.map(({ name, dataType, shape, bytes }) => [name, dataType, shape, bytes.byteLength]),
    parameters:
      response.parameters === null
        ? null
        : [...response.parameters].map(([name, value]) =>
            typeof value === 'bigint' ? [name, 'integer', String(value)] : [name, 'other', value],
          ),
  }
  const text = Buffer.from(JSON.stringify(head))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.byteLength)
  return Buffer.concat([length, text, ...response.outputs.map((output) => output.bytes)])
}

/** Null for bytes that are no answer: others may write into the same store. */
export function decodeAnswer(bytes: Buffer): CachedAnswer | null {
  try {
    const headEnd = 4 + bytes.readUInt32LE(0)
    if (headEnd > bytes.byteLength) return null
    const head = JSON.parse(bytes.toString('utf8', 4, headEnd)) as Head
    let offset = headEnd
    const outputs = head.outputs.map(([name, dataType, shape, byteSize]) => {
      if (!isDataType(dataType) || !Number.isSafeInteger(byteSize) || byteSize < 0) throw new Error('not a tensor')
      if (!shape.every((dimension) => Number.isSafeInteger(dimension) && dimension >= 0)) throw new Error('not a shape')
      const isOfElements = dataType === 'BYTES' || byteSize === elementCount(shape) * elementBytes[dataType]
      if (!isOfElements) throw new Error('not as long as its shape')
      const data = bytes.subarray(offset, offset + byteSize)
      offset += byteSize
      return new Tensor(name, dataType, shape, data)
    })
    if (offset !== bytes.byteLength) return null
    const parameters =
      head.parameters === null
        ? null
        : new Map(
            head.parameters.map(([name, kind, value]) => [
              name,
              kind === 'integer' ? BigInt(value as string) : (value as ParameterValue),
            ]),
          )
    return { outputs, parameters }
  } catch {
    return null
  }
}
