import { bytesElementsOf, numbersOf } from '../tensor/typed-values.ts'
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
    elements = bytesElementsOf(tensor)
  } catch {
    return []
  }
  return elements.slice(0, maxElements + 1).map((element) => {
    const text = Buffer.from(element.buffer, element.byteOffset, Math.min(element.length, maxElementBytes)).toString()
    return element.length > maxElementBytes ? `"${text}..."` : `"${text}"`
  })
}

function numberTexts(tensor: Tensor): string[] {
  // Bits of half floats would be misread as integers; Triton leaves them out too.
  if (tensor.dataType === 'FP16' || tensor.dataType === 'BF16') return []
  const isFloat = tensor.dataType === 'FP32' || tensor.dataType === 'FP64'
  const texts: string[] = []
  const values = numbersOf(tensor)
  for (let i = 0; i < values.length && i <= maxElements; i++) {
    const value = values[i] as number | bigint
    // Six digits, as a C++ stream prints.
    texts.push(isFloat ? String(Number((value as number).toPrecision(6))) : String(value))
  }
  return texts
}
