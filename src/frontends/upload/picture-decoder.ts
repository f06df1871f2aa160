// Pictures are decoded a few at a time, and the others wait. A process beside this one does it (picture-process.ts).

import { availableParallelism } from 'node:os'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { lowerThreads } from '../../base/lower-threads.ts'
import { ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import { kindOf } from '../../protocol/upload/file-kind.ts'
import { firstGifPicture } from '../../protocol/upload/gif-file.ts'
import { packedTextBytes } from '../../protocol/upload/png-file.ts'
import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'
import { pictureFormats } from './picture-formats.ts'
import { PictureProcess } from './picture-process.ts'

/** Pictures that wait for a thread. */
const mostWaiting = 256
/** Bytes of the compressed texts of a PNG. libpng inflates each of them, up to a thousand times, though nobody reads them. */
const mostPackedTextBytes = 256 * 1024

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

export class PictureDecoder {
  /** Of one request: while the pixels of some are handed on, threads have others to decode. */
  readonly picturesAtOnce = 2 * availableParallelism()
  readonly #maxPixels: number
  readonly #threads = new Turnstile(availableParallelism(), {
    most: mostWaiting,
    refusal: () =>
      ServerError.withoutStack('UNAVAILABLE', `${mostWaiting} pictures wait to be decoded: try again later`),
  })
  readonly #process: PictureProcess
  #yielding: Promise<void> | null = null

  constructor(clock: Clock, log: Log, maxPixels: number) {
    this.#maxPixels = maxPixels
    this.#process = new PictureProcess(clock, log, maxPixels, availableParallelism())
  }

  /** Rows of pixels of the size that the plan has, with 1 or 3 channels. With the abort of `signal` a picture that waits leaves the line. Throws ServerError. */
  async decode(file: Buffer, plan: ImagePlan, signal: AbortSignal): Promise<Uint8Array> {
    const format = pictureFormats.find(({ starts }) => starts.test(file.toString('latin1', 0, 12)))
    if (format === undefined) {
      throw invalid(
        `the upload is ${kindOf(file) ?? 'no picture'}: expected ${pictureFormats.map(({ name }) => name).join(', ')} by its first bytes`,
      )
    }
    if (format.name === 'PNG' && packedTextBytes(file) > mostPackedTextBytes) {
      throw invalid(
        `the PNG picture has more than ${mostPackedTextBytes} bytes of compressed texts: save it without them`,
      )
    }
    const picture = format.name === 'GIF' ? firstGifPicture(file) : file
    if (picture === null) throw invalid('the GIF picture has more than 1048576 blocks in its first picture or before it: save it anew') // prettier-ignore
    await (this.#yielding ??= letPicturesYield())
    return this.#threads.pass(() => this.#pixelsOf(picture, plan, format.name), { signal })
  }

  close(): void {
    this.#process.close()
  }

  async #pixelsOf(picture: Buffer, plan: ImagePlan, format: string): Promise<Uint8Array> {
    const { outcome, text, pixels } = await this.#process.prepare(picture, plan)
    if (outcome === 'tooLarge') {
      throw invalid(
        `the picture has more than ${this.#maxPixels} pixels: send it smaller, or raise --predict-max-pixels`,
      )
    }
    if (outcome === 'unreadable') throw invalid(`the ${format} picture cannot be decoded: ${text}`)
    if (outcome === 'noPackage') {
      throw new ServerError('UNAVAILABLE', "pictures need the package 'sharp': run 'npm install sharp' beside galatea")
    }
    if (pixels.length !== plan.height * plan.width * plan.channels) {
      throw new ServerError('INTERNAL', `the picture became ${pixels.length} bytes of pixels`)
    }
    return pixels
  }
}

/** Threads of this process that work beside pictures take no core from the main thread, which has small requests to answer. */
async function letPicturesYield(): Promise<void> {
  // Threads of V8 collect what pictures leave. The main thread waits for parts of that, so they come before pictures.
  await lowerThreads('node-V8Worker', 5)
  // A model that runs has its full share of the cores, but does not take one from the main thread.
  await lowerThreads('onnx-carrier', 0)
}
