// Turns pictures of digits into what the `digits` model reads: 64 grey cells per picture. No build step: Node runs this
// file as it is, in a thread of its own, so a long picture never holds up another model.

import { defineModel, InferenceError, tensor, type ModelRequest, type Tensor } from 'galatea/model'
import { decodePng, isPng, maxPixels, type GreyImage } from './png.ts'
import { toDigitPixels } from './to-digit-pixels.ts'

const cells = 64

export default defineModel({
  infer(request: ModelRequest) {
    const pictures = picturesOf(request)
    const pixels = new Float32Array(pictures.length * cells)
    for (const [index, picture] of pictures.entries()) pixels.set(cellsOf(picture, index), index * cells)
    return [tensor('pixels', 'FP32', [pictures.length, cells], pixels)]
  },
})

type Picture = () => GreyImage

const picturesOf = (request: ModelRequest): Picture[] => {
  const image = request.inputs.get('image')
  const grey = request.inputs.get('grey')
  if (image !== undefined && grey === undefined) return image.asByteArrays().map(pngPicture)
  if (grey !== undefined && image === undefined) return greyPictures(grey)
  throw new InferenceError("give one of the inputs: 'image' (PNG files) or 'grey' (raw pixels)", 'INVALID_ARG')
}

/** A PNG file as it is, or as base64 text, with or without `data:image/png;base64,`: the way it fits into JSON. */
const pngPicture =
  (element: Uint8Array): Picture =>
  () => {
    const file = Buffer.from(element.buffer, element.byteOffset, element.byteLength)
    if (isPng(file)) return decodePng(file)
    const text = file.toString('latin1').replace(/^data:image\/png;base64,/, '')
    const decoded = Buffer.from(text, 'base64')
    return decodePng(isPng(decoded) ? decoded : file)
  }

const greyPictures = (grey: Tensor): Picture[] => {
  const [count = 0, height = 0, width = 0] = grey.shape
  const size = height * width
  const bytes = grey.asUint8()
  return Array.from({ length: count }, (_, index) => () => {
    if (size === 0 || size > maxPixels) {
      throw new Error(`'grey' is ${width}x${height}: between 1 and ${maxPixels} pixels are read`)
    }
    return { width, height, pixels: bytes.subarray(index * size, (index + 1) * size) }
  })
}

/** What is wrong with a picture is the client's to mend: it hears which one, and what. */
const cellsOf = (picture: Picture, index: number): Float32Array => {
  try {
    return toDigitPixels(picture())
  } catch (reason) {
    throw new InferenceError(`picture ${index}: ${(reason as Error).message}`, 'INVALID_ARG', { cause: reason })
  }
}
