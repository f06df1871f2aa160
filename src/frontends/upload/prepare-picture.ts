// A picture becomes rows of pixels of the size that a model takes, by sharp (libvips). The package is optional, and read with the first picture.

import { Turnstile } from '../../base/turnstile.ts'
import { pictureStarts } from '../../protocol/upload/file-kind.ts'
import { hasTooManyScans, mostScans } from '../../protocol/upload/jpeg-file.ts'
import { putExifFirst } from '../../protocol/upload/png-file.ts'
import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'
import { finishPicture, fitPicture, greyOf, rgbOfInks } from './fit-picture.ts'
import { pictureFormats } from './picture-formats.ts'

export type Sharp = typeof import('sharp').default
type Picture = ReturnType<Sharp>
type Metadata = Awaited<ReturnType<Picture['metadata']>>

/** A picture that takes longer is given up. */
const longestDecodeSecs = 20

const kernels = { linear: 'linear', cubic: 'cubic', lanczos: 'lanczos3', nearest: 'nearest' } as const

/**
 * Pixels that are in memory at the same time, ten bytes each at most: those of a progressive JPEG, of an interlaced PNG, of any WebP or GIF, and
 * of a picture that is turned. A file of some kilobytes can have millions of them.
 */
const mostPixelsTogether = 67_108_864
/** Of another JPEG or PNG only some rows are in memory. */
const rowsShare = 1 / 64

const memory = new Turnstile(mostPixelsTogether)

/** Rows of pixels with the channels of the plan. The file is not used afterwards. Throws what libvips throws of a file that it cannot read, or that has too many pixels. */
export async function preparePicture(
  sharp: Sharp,
  file: Buffer,
  plan: ImagePlan,
  maxPixels: number,
): Promise<Uint8Array> {
  if (pictureStarts.PNG.test(file.toString('latin1', 0, 8))) putExifFirst(file)
  // libvips compares the size in the head of the file with the limit before it decodes anything. Frameworks take colours as they are,
  // without the file's profile, so models were trained like that.
  const options = { limitInputPixels: maxPixels, failOn: 'error', autoOrient: true, sequentialRead: true, ignoreIcc: true } as const // prettier-ignore
  const picture = sharp(file, options)
  const facts = await picture.metadata()
  if (facts.format === 'jpeg' && facts.isProgressive && hasTooManyScans(file)) {
    throw new Error(`it has more than ${mostScans} scans: save it anew`)
  }
  return memory.pass(() => pixelsOf(sharp, picture, facts, plan), { places: pixelsInMemory(facts) })
}

function pixelsInMemory({ width, height, format, space, isProgressive, orientation = 1 }: Metadata): number {
  const isReadByRows =
    (format === 'jpeg' || format === 'png') && space !== 'cmyk' && !isProgressive && orientation === 1
  return Math.ceil(width * height * (isReadByRows ? rowsShare : 1))
}

async function pixelsOf(sharp: Sharp, file: Picture, facts: Metadata, plan: ImagePlan): Promise<Uint8Array> {
  const { autoOrient: size, space } = facts
  const picture = space === 'cmyk' ? await withoutInks(sharp, file, size) : file
  const fitting = fitPicture(size, plan)
  const { across, down } = fitting
  // With `fastShrinkOnLoad` the pixels of a WebP differ from those of the same picture as PNG; without, 8 megapixels take 10 % longer.
  const resize = { fit: 'fill', kernel: kernels[plan.resample], fastShrinkOnLoad: false } as const
  const read = picture
    .resize({ width: across.size, height: down.size, ...resize })
    .extract({ left: across.from, top: down.from, width: across.to - across.from, height: down.to - down.from })
    // What is transparent lies on white paper.
    .flatten({ background: '#fff' })
    .toColourspace('srgb')
  const rgb = finishPicture(await pixels(read), fitting, plan)
  return plan.isGrey ? greyOf(rgb) : rgb
}

const pixels = (picture: Picture): Promise<Buffer> => picture.timeout({ seconds: longestDecodeSecs }).raw().toBuffer()

/** libvips would print the inks with a press of its own choice. */
async function withoutInks(sharp: Sharp, file: Picture, { width, height }: Metadata['autoOrient']): Promise<Picture> {
  const inks = await pixels(file.pipelineColourspace('cmyk').toColourspace('cmyk'))
  return sharp(rgbOfInks(inks), { raw: { width, height, channels: 3 }, limitInputPixels: false })
}

/** What libvips says of a file, which repeats itself, and for some files has no words. */
export function complaintOf(text: string): string {
  const lines = text.replace('Input buffer has corrupt header:', '').split('\n')
  const said = lines.map((line) => line.trim()).filter((line) => line !== '' && line !== 'Unknown error')
  return [...new Set(said)].join(', ').slice(0, 200) || 'it is damaged, or its end is missing'
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
