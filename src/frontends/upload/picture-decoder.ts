// Pictures are decoded and resized by sharp (libvips), in threads of Node's pool: a few at a time, and the others wait. These threads yield
// to the main thread, which has small requests to answer meanwhile. The package is optional, and read when the first picture comes.

import { availableParallelism } from 'node:os'
import { lowerThreads } from '../../base/lower-threads.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import { firstGifPicture } from '../../protocol/upload/gif-file.ts'
import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'

type Sharp = typeof import('sharp').default

/** Pictures that wait for a thread. */
const mostWaiting = 256
/** Chunks of a PNG: its pixels come in pieces of 8 KiB and more. */
const mostChunks = 65_536
/** A picture that takes longer is given up. */
const longestDecodeSecs = 20

/** What a file begins with, and the loader of libvips that reads it. No other loader is ever used. */
const formats: readonly { readonly name: string; readonly loader: string; readonly starts: RegExp }[] = [
  { name: 'JPEG', loader: 'VipsForeignLoadJpegBuffer', starts: /^\xff\xd8\xff/ },
  { name: 'PNG', loader: 'VipsForeignLoadPngBuffer', starts: /^\x89PNG\r\n/ },
  { name: 'WebP', loader: 'VipsForeignLoadWebpBuffer', starts: /^RIFF[^]{4}WEBP/ },
  { name: 'GIF', loader: 'VipsForeignLoadNsgifBuffer', starts: /^GIF8[79]a/ },
]

/** Bytes of the compressed texts of a PNG. libpng inflates each of them, up to a thousand times, though nobody reads them. */
const mostPackedTextBytes = 256 * 1024

const kernels = { linear: 'linear', cubic: 'cubic', lanczos: 'lanczos3', nearest: 'nearest' } as const
const fits = { crop: 'cover', stretch: 'fill', pad: 'contain' } as const

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

export class PictureDecoder {
  readonly #maxPixels: number
  /** One thread of the pool is left to files and compression. */
  readonly #threads = new Turnstile(Math.max(1, Math.min(availableParallelism(), poolSize() - 1)), {
    most: mostWaiting,
    refusal: () =>
      ServerError.withoutStack('UNAVAILABLE', `${mostWaiting} pictures wait to be decoded: try again later`),
  })
  #sharp: Promise<Sharp> | null = null

  constructor(maxPixels: number) {
    this.#maxPixels = maxPixels
  }

  /** Rows of pixels of the size that the plan has, with 1 or 3 channels. `isWanted` is asked before work begins. Throws ServerError. */
  async decode(file: Buffer, plan: ImagePlan, isWanted: () => boolean): Promise<Uint8Array> {
    const format = formats.find(({ starts }) => starts.test(file.toString('latin1', 0, 12)))
    if (format === undefined) {
      throw invalid(
        `the upload is no picture: expected ${formats.map(({ name }) => name).join(', ')} by its first bytes`,
      )
    }
    if (format.name === 'PNG' && packedTextBytes(file) > mostPackedTextBytes) {
      throw invalid(
        `the PNG picture has more than ${mostPackedTextBytes} bytes of compressed texts: save it without them`,
      )
    }
    const picture = format.name === 'GIF' ? firstGifPicture(file) : file
    if (picture === null) throw invalid('the GIF picture has more than 1048576 blocks in its first picture or before it: save it anew') // prettier-ignore
    const sharp = await this.#load()
    try {
      return await this.#threads.pass(async () => {
        if (!isWanted()) throw ServerError.withoutStack('CANCELLED', 'Request Cancelled')
        return this.#prepare(sharp, picture, plan)
      })
    } catch (reason) {
      if (reason instanceof ServerError) throw reason
      const text = messageOf(reason)
      if (/pixel limit/i.test(text)) throw this.#tooLarge()
      throw invalid(`the ${format.name} picture cannot be decoded: ${text.replaceAll(/\s+/g, ' ').slice(0, 200)}`)
    }
  }

  #tooLarge(): ServerError {
    return invalid(
      `the picture has more than ${this.#maxPixels} pixels: send it smaller, or raise --predict-max-pixels`,
    )
  }

  async #prepare(sharp: Sharp, file: Buffer, plan: ImagePlan): Promise<Uint8Array> {
    const { height, width, shorterSide, isGrey } = plan
    // libvips compares the size in the head of the file with the limit before it decodes anything.
    const options = {
      limitInputPixels: this.#maxPixels,
      failOn: 'error',
      autoOrient: true,
      sequentialRead: true,
    } as const
    // With `fastShrinkOnLoad` the pixels of a WebP differ from those of the same picture as PNG; without, 8 megapixels take 10 % longer.
    const quality = { kernel: kernels[plan.resample], fastShrinkOnLoad: false }
    let picture = sharp(file, options)
    if (shorterSide === 0)
      picture = picture.resize({ width, height, fit: fits[plan.fit], ...quality, background: '#000' })
    else {
      const { autoOrient: size } = await picture.metadata()
      const ratio = shorterSide / Math.min(size.width, size.height)
      const [fullWidth, fullHeight] = [Math.round(size.width * ratio), Math.round(size.height * ratio)]
      if (fullWidth * fullHeight > this.#maxPixels) throw this.#tooLarge()
      picture = picture
        .resize({ width: fullWidth, height: fullHeight, fit: 'fill', ...quality })
        .extract({ left: (fullWidth - width) >> 1, top: (fullHeight - height) >> 1, width, height })
    }
    // What is transparent lies on white paper.
    picture = picture.flatten({ background: '#fff' })
    picture = isGrey ? picture.greyscale() : picture.toColourspace('srgb')
    const { data, info } = await picture
      .timeout({ seconds: longestDecodeSecs })
      .raw()
      .toBuffer({ resolveWithObject: true })
    if (info.channels !== plan.channels || info.width !== width || info.height !== height) {
      throw new ServerError(
        'INTERNAL',
        `the picture became ${info.width}x${info.height} with ${info.channels} channels`,
      )
    }
    return data
  }

  #load(): Promise<Sharp> {
    this.#sharp ??= importSharp().catch((reason: unknown) => {
      this.#sharp = null
      throw reason
    })
    return this.#sharp
  }
}

/** Of the chunks before the pixels and behind them. A picture that names more chunks than libpng keeps counts as one that is full of texts. */
function packedTextBytes(file: Buffer): number {
  let sum = 0
  let at = 8
  for (let chunks = 0; at + 8 <= file.length; chunks++) {
    if (chunks === mostChunks) return Infinity
    const length = file.readUInt32BE(at)
    const name = file.toString('latin1', at + 4, at + 8)
    const text = name === 'iTXt' ? file.subarray(at + 8, at + 8 + Math.min(length, 128)) : null
    // In iTXt a byte behind the keyword says whether the text is compressed.
    if (name === 'zTXt' || (text !== null && text[text.indexOf(0) + 1] === 1)) sum += length
    at += 12 + length
  }
  return sum
}

async function importSharp(): Promise<Sharp> {
  const { default: sharp } = await import('sharp').catch((reason: unknown) => {
    throw new ServerError('UNAVAILABLE', "pictures need the package 'sharp': run 'npm install sharp' beside galatea", {
      cause: reason,
    })
  })
  // Each picture has a thread of its own, and nobody sends the same picture again and again.
  sharp.concurrency(1)
  sharp.cache(false)
  sharp.block({ operation: ['VipsForeignLoad'] })
  sharp.unblock({ operation: formats.map(({ loader }) => loader) })
  // The threads of libvips are started by those of the pool, and inherit from them.
  await lowerThreads('libuv-worker', 10)
  // Threads of V8 collect what pictures leave. The main thread waits for parts of that, so they come before pictures.
  await lowerThreads('node-V8Worker', 5)
  // A model that runs has its full share of the cores, but does not take one from the main thread.
  await lowerThreads('onnx-carrier', 0)
  return sharp
}

const poolSize = (): number => Number(process.env['UV_THREADPOOL_SIZE']) || 4
