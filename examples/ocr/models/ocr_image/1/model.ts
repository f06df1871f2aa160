// A PNG picture → its grey pixels, and what the detection network wants of them.

import { InferenceError, tensor, type ModelRequest } from 'galatea/model'
import { decodePng, isPng, type GreyImage } from './png.ts'

export const config = {
  input: [{ name: 'IMAGE', dataType: 'BYTES', dims: [1] }],
  output: [
    { name: 'PIXELS', dataType: 'UINT8', dims: [-1, -1] },
    { name: 'NETWORK_INPUT', dataType: 'FP32', dims: [-1, 3, -1, -1] },
  ],
}

/** Larger pictures are made smaller for the detection; lines are cut out of the picture as it came. */
const longestSide = 960
const channels = [
  { mean: 0.485, deviation: 0.229 },
  { mean: 0.456, deviation: 0.224 },
  { mean: 0.406, deviation: 0.225 },
]

export function infer(request: ModelRequest) {
  const image = readImage(request.input('IMAGE').asByteArrays()[0] ?? new Uint8Array())
  const scale = Math.min(1, longestSide / Math.max(image.width, image.height))
  const [width, height] = [sideOf(image.width * scale), sideOf(image.height * scale)]
  const size = width * height
  const network = new Float32Array(3 * size)
  for (let y = 0; y < height; y++) {
    const row = Math.floor(((y + 0.5) * image.height) / height) * image.width
    for (let x = 0; x < width; x++) {
      const grey = (image.pixels[row + Math.floor(((x + 0.5) * image.width) / width)] ?? 0) / 255
      for (const [c, { mean, deviation }] of channels.entries()) {
        network[c * size + y * width + x] = (grey - mean) / deviation
      }
    }
  }
  return [
    tensor('PIXELS', 'UINT8', [image.height, image.width], image.pixels),
    tensor('NETWORK_INPUT', 'FP32', [1, 3, height, width], network),
  ]
}

const sideOf = (pixels: number): number => Math.max(32, Math.round(pixels / 32) * 32)

/** The file as it is, or as base64 text, the way it fits into JSON. What is wrong with it is the client's to mend. */
function readImage(element: Uint8Array): GreyImage {
  const file = Buffer.from(element.buffer, element.byteOffset, element.byteLength)
  try {
    return decodePng(isPng(file) ? file : Buffer.from(file.toString('latin1'), 'base64'))
  } catch (reason) {
    throw new InferenceError((reason as Error).message, 'INVALID_ARG', { cause: reason })
  }
}
