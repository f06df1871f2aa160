// Pixels of a prepared picture become the elements of the model's input.

import type { ImagePlan } from './upload-plan.ts'
import { elementArray, elementBytes, integerBounds, type FixedSizeType } from '../../tensor/data-type.ts'
import { bf16Bits, fp16Bits } from '../../tensor/half-float.ts'

/** Pixels that are looked at in one step: well below a millisecond. */
const stepPixels = 16 * 1024

type Elements = { [index: number]: number | bigint; readonly length: number }

/** Pixels have 8 bits, so the element of each value is worked out once for each channel. */
function elementTable(dataType: FixedSizeType, { scale, mean, std }: ImagePlan, channel: number): Elements {
  const table = new elementArray[dataType](256) as unknown as Elements
  const bounds = integerBounds[dataType]
  for (let pixel = 0; pixel < 256; pixel++) {
    const value = (pixel * scale - (mean[channel] ?? 0)) / (std[channel] ?? 1)
    if (dataType === 'FP16') table[pixel] = fp16Bits(value)
    else if (dataType === 'BF16') table[pixel] = bf16Bits(value)
    else if (dataType === 'INT64' || dataType === 'UINT64') table[pixel] = BigInt(Math.round(value))
    else if (bounds === null) table[pixel] = value
    else table[pixel] = Math.min(bounds[1], Math.max(bounds[0], Math.round(value)))
  }
  return table
}

/** Rows of pixels with their channels together, RGB or grey, into `target` in the model's order. Others are served between the steps. */
export function* writePixels(
  pixels: Uint8Array,
  dataType: FixedSizeType,
  image: ImagePlan,
  target: Uint8Array,
): Generator<void, void> {
  const { channels, isPlanar, isReversed } = image
  const count = image.height * image.width
  const out = new elementArray[dataType](
    target.buffer as ArrayBuffer,
    target.byteOffset,
    target.byteLength / elementBytes[dataType],
  ) as unknown as Elements
  for (let channel = 0; channel < channels; channel++) {
    const from = isReversed ? channels - 1 - channel : channel
    const table = elementTable(dataType, image, channel)
    const start = isPlanar ? channel * count : channel
    const stride = isPlanar ? 1 : channels
    for (let first = 0; first < count; first += stepPixels) {
      const end = Math.min(count, first + stepPixels)
      for (let i = first; i < end; i++) {
        out[start + i * stride] = table[pixels[i * channels + from] as number] as number
      }
      yield
    }
  }
}
