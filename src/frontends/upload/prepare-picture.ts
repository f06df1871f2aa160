// A picture becomes rows of pixels of the size that a model takes, by sharp (libvips). The package is optional, and read with the first picture.

import { Turnstile } from '../../base/turnstile.ts'
import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'
import { pictureFormats } from './picture-formats.ts'

export type Sharp = typeof import('sharp').default
type Picture = ReturnType<Sharp>
type Metadata = Awaited<ReturnType<Picture['metadata']>>

/** A picture that takes longer is given up. */
const longestDecodeSecs = 20

const kernels = { linear: 'linear', cubic: 'cubic', lanczos: 'lanczos3', nearest: 'nearest' } as const
const fits = { crop: 'cover', stretch: 'fill', pad: 'contain' } as const

/**
 * Pixels that are in memory at the same time, ten bytes each at most: those of a progressive JPEG, of an interlaced PNG, of any WebP or GIF, and
 * of a picture that is turned. A file of some kilobytes can have millions of them.
 */
const mostPixelsTogether = 67_108_864
/** Of another JPEG or PNG only some rows are in memory. */
const rowsShare = 1 / 64

const memory = new Turnstile(mostPixelsTogether)

/** The picture, or what it becomes on the way, has more pixels than are taken. */
export class TooManyPixels extends Error {}

/** Rows of pixels with the channels of the plan. Throws TooManyPixels, and what libvips throws of a file that it cannot read. */
export async function preparePicture(sharp: Sharp, file: Buffer, plan: ImagePlan, maxPixels: number): Promise<Buffer> {
  // libvips compares the size in the head of the file with the limit before it decodes anything.
  const options = { limitInputPixels: maxPixels, failOn: 'error', autoOrient: true, sequentialRead: true } as const
  const picture = sharp(file, options)
  const facts = await picture.metadata()
  return memory.pass(() => pixelsOf(picture, facts.autoOrient, plan, maxPixels), {
    places: pixelsInMemory(facts),
  })
}

function pixelsInMemory({ width, height, format, isProgressive, orientation = 1 }: Metadata): number {
  const isReadByRows = (format === 'jpeg' || format === 'png') && !isProgressive && orientation === 1
  return Math.ceil(width * height * (isReadByRows ? rowsShare : 1))
}

async function pixelsOf(
  file: Picture,
  size: Metadata['autoOrient'],
  { height, width, shorterSide, isGrey, ...plan }: ImagePlan,
  maxPixels: number,
): Promise<Buffer> {
  // With `fastShrinkOnLoad` the pixels of a WebP differ from those of the same picture as PNG; without, 8 megapixels take 10 % longer.
  const quality = { kernel: kernels[plan.resample], fastShrinkOnLoad: false }
  let picture: Picture
  if (shorterSide === 0) picture = file.resize({ width, height, fit: fits[plan.fit], ...quality, background: '#000' })
  else {
    const ratio = shorterSide / Math.min(size.width, size.height)
    const [fullWidth, fullHeight] = [Math.round(size.width * ratio), Math.round(size.height * ratio)]
    if (fullWidth * fullHeight > maxPixels) throw new TooManyPixels()
    picture = file
      .resize({ width: fullWidth, height: fullHeight, fit: 'fill', ...quality })
      .extract({ left: (fullWidth - width) >> 1, top: (fullHeight - height) >> 1, width, height })
  }
  // What is transparent lies on white paper.
  picture = picture.flatten({ background: '#fff' })
  picture = isGrey ? picture.greyscale() : picture.toColourspace('srgb')
  return await picture.timeout({ seconds: longestDecodeSecs }).raw().toBuffer()
}

/** Throws where the package is not installed. */
export async function openSharp(): Promise<Sharp> {
  const { default: sharp } = await import('sharp')
  // Each picture has a thread of its own, and nobody sends the same picture again and again.
  sharp.concurrency(1)
  sharp.cache(false)
  sharp.block({ operation: ['VipsForeignLoad'] })
  sharp.unblock({ operation: pictureFormats.map(({ loader }) => loader) })
  return sharp
}
