// Tensors as the exported profile writes them: an object with the values by name, as JSON text.

import { bf16Value, fp16Value } from '../../tensor/half-float.ts'
import { bytesElements, typedValues } from '../../client/tensor-data.ts'
import type { DataType } from '../../tensor/data-type.ts'

type ExportedTensor = { readonly name: string; readonly dataType: DataType; readonly bytes: Uint8Array }

/** Tensors with more elements are left out; a picture would make the file as large as the traffic. */
const maxElements = 256

export function exportedTensors(tensors: readonly ExportedTensor[]): string {
  const members = tensors.flatMap((tensor) => {
    const values = valueTexts(tensor)
    if (values === null) return []
    return [`${JSON.stringify(tensor.name)}:${values.length === 1 ? values[0] : `[${values.join(',')}]`}`]
  })
  return `{${members.join(',')}}`
}

function valueTexts({ name, dataType, bytes }: ExportedTensor): string[] | null {
  if (dataType === 'BYTES') {
    const elements = bytesElements(name, bytes)
    if (elements.length > maxElements) return null
    return elements.map((element) => JSON.stringify(Buffer.from(element).toString('utf8')))
  }
  const values = typedValues(dataType, bytes)
  if (values.length > maxElements) return null
  return Array.from<number | bigint, string>(values, (value) => {
    if (typeof value === 'bigint') return String(value)
    if (dataType === 'BOOL') return String(value !== 0)
    const number = dataType === 'FP16' ? fp16Value(value) : dataType === 'BF16' ? bf16Value(value) : value
    // JSON knows neither NaN nor infinity.
    return Number.isFinite(number) ? String(number) : 'null'
  })
}
