import { elementBytes, elementsOf } from '../tensor/data-type.ts'
import { bytesElementsOf } from '../tensor/typed-values.ts'
import type { Tensor } from '../tensor/tensor.ts'

/** A trace is to be read by people: the first values tell what the tensor is, and a large one must not stall the server. */
const maxElements = 1024
const maxElementBytes = 256

/** A tensor's values as Triton writes them into a trace: `1,2.5,3`; strings in quotes. */
export function tensorText(tensor: Tensor): string {
  const texts = tensor.dataType === 'BYTES' ? stringTexts(tensor) : numberTexts(tensor)
  if (texts.length > maxElements) return `${texts.slice(0, maxElements).join(',')},...`
  return texts.join(',')
}

function stringTexts(tensor: Tensor): string[] {
  let elements: Uint8Array[]
  try {
    elements = bytesElementsOf(tensor, maxElements + 1)
  } catch {
    return []
  }
  return elements.map((element) => {
    const text = Buffer.from(element.buffer, element.byteOffset, Math.min(element.length, maxElementBytes)).toString()
    return element.length > maxElementBytes ? `"${text}..."` : `"${text}"`
  })
}

function numberTexts({ dataType, bytes }: Tensor): string[] {
  // Bits of half floats would be misread as integers; Triton leaves them out too.
  if (dataType === 'BYTES' || dataType === 'FP16' || dataType === 'BF16') return []
  const isFloat = dataType === 'FP32' || dataType === 'FP64'
  const texts: string[] = []
  const values = elementsOf(dataType, bytes.subarray(0, (maxElements + 1) * elementBytes[dataType]))
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number | bigint
    // Six digits, as a C++ stream prints.
    texts.push(isFloat ? String(Number((value as number).toPrecision(6))) : String(value))
  }
  return texts
}
