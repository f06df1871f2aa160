import { isUtf8 } from 'node:buffer'
import type { Caller } from '../../access/caller.ts'
import type { Log } from '../../base/log.ts'
import { inSlices, runInSlices, shortSliceNs } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import { freeBytes, freeInput } from '../../exchange/body-to-reuse.ts'
import type { ExchangeParts } from '../../exchange/inference-exchange.ts'
import { servedNames } from '../../exchange/served-names.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { requestEncoding } from '../../ports/http/content-encoding.ts'
import { errorResponse, jsonResponse } from '../../ports/http/error-response.ts'
import { HttpExchange } from '../../ports/http/http-exchange.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { bytesElementsInSteps } from '../../protocol/bytes-element.ts'
import { writeUploadAnswer } from '../../protocol/upload/upload-answer.ts'
import { hintTexts, planUpload, readUploadHint, type UploadPlan } from '../../protocol/upload/upload-plan.ts'
import { writePixels } from '../../protocol/upload/pixel-tensor.ts'
import { uploadRequest, type Upload, type UploadRequest } from '../../protocol/upload/upload-request.ts'
import { framesFor, readWaveFile, sampleCount, waveSamples, writeInt16 } from '../../protocol/upload/wave-file.ts'
import { elementBytes, type FixedSizeType } from '../../tensor/data-type.ts'
import { elementCount, type Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { headerOf, jsonType } from '../../transport/http1/http-message.ts'
import { PictureDecoder } from './picture-decoder.ts'

export type UploadParts = ExchangeParts & { readonly log: Log }

/** Whether galatea.yaml has changed is looked up once in so long: for pictures tens of times a second the looks held small requests up. */
const planAgeNs = 1e9

type KnownPlan = { readonly text: string; readonly plan: UploadPlan; readonly lookedNs: number }

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)
const notWanted = ServerError.withoutStack('CANCELLED', 'Request Cancelled')

export class UploadEndpoint {
  readonly parts: UploadParts
  readonly decoder: PictureDecoder
  /** By the text of the hint: galatea.yaml may change while a version serves. */
  readonly #plans = new WeakMap<ModelVersion, KnownPlan>()

  constructor(parts: UploadParts, options: HttpOptions) {
    this.parts = parts
    this.decoder = new PictureDecoder(parts.clock, parts.log, options.maxPicturePixels)
  }

  close(): void {
    this.decoder.close()
  }

  handle(http: PortRequest, model: string, version: string, caller: Caller): void {
    const contentType = headerOf(http.headers, 'content-type') ?? ''
    let isGone = false
    http.onDisconnect = () => (isGone = true)
    const begin = (error: unknown, request: UploadRequest | null): void => {
      if (isGone) return
      let name = model
      try {
        if (request === null) throw error
        if (name === '') name = this.#modelOf(request, caller)
      } catch (reason) {
        this.#refuse(http, reason)
        return
      }
      new UploadExchange(this, http, caller, request).begin(name, version)
    }
    if (requestEncoding(headerOf(http.headers, 'content-encoding')) === 'identity')
      runInSlices(this.parts.clock, uploadRequest(http.body, contentType, http.target), () => !isGone, begin)
    else begin(invalid("Unsupported content-encoding, only 'identity' is supported: pictures are compressed by themselves"), null) // prettier-ignore
  }

  #refuse(http: PortRequest, reason: unknown): void {
    const error = this.parts.engine.wording.tell(reason)
    this.parts.engine.refusals.count(error)
    http.respond(errorResponse(error, jsonType))
  }

  /** The only model that serves and that the caller may use, where the client names none. */
  #modelOf({ model }: UploadRequest, caller: Caller): string {
    if (model !== '') return model
    const names = servedNames(this.parts.engine, caller, 'inference')
    if (names.length === 1) return names[0] as string
    throw invalid(
      `the server has ${names.length} models: name one, as POST /v2/models/{model}/predict, /predict?model=… or a form field 'model'`,
    )
  }

  async planOf(version: ModelVersion): Promise<UploadPlan> {
    const lookedNs = this.parts.clock.nowNs()
    const known = this.#plans.get(version)
    if (known !== undefined && lookedNs - known.lookedNs < planAgeNs) return known.plan
    const texts = hintTexts(version.config, await this.parts.engine.registry.extra(version.name, 'predict'))
    const text = JSON.stringify([...texts])
    const plan = known?.text === text ? known.plan : planUpload(version.signature, readUploadHint(version.name, texts))
    this.#plans.set(version, { text, plan, lookedNs })
    return plan
  }
}

class UploadExchange extends HttpExchange {
  readonly #endpoint: UploadEndpoint
  readonly #request: UploadRequest
  #plan: UploadPlan | null = null
  #tensor: Tensor | null = null
  #isCancelled = false
  /** Of what is still done for the request when its client has gone, or one of its files is refused. */
  readonly #work = new AbortController()

  constructor(endpoint: UploadEndpoint, http: PortRequest, caller: Caller, request: UploadRequest) {
    super(endpoint.parts, http, caller, true)
    this.#endpoint = endpoint
    this.#request = request
  }

  protected override read(version: ModelVersion): void {
    const { signature } = version
    const { uploads } = this.#request
    if (signature.isDecoupled) {
      throw ServerError.withoutStack('UNSUPPORTED', "predict doesn't support models with decoupled transaction policy")
    }
    const most = Math.max(1, signature.maxBatchSize)
    if (uploads.length > most) {
      throw invalid(`${uploads.length} files were uploaded, and model '${version.name}' takes ${most} at a time`)
    }
    this.readLater<Tensor>(
      (done) => {
        void this.#prepareFor(version, done)
        return {
          cancel: () => {
            this.#isCancelled = true
            this.#work.abort(notWanted)
          },
        }
      },
      (tensor) => {
        this.#tensor = tensor
        this.submit({ inputs: [tensor] })
      },
    )
  }

  async #prepareFor(version: ModelVersion, done: (error: unknown, tensor: Tensor | null) => void): Promise<void> {
    let tensor: Tensor | null = null
    let error: unknown = null
    try {
      tensor = await this.#prepare(version)
    } catch (reason) {
      error = reason
      this.#work.abort(notWanted)
    }
    // Nobody waits for an answer to a client that went away.
    if (!this.#isCancelled) done(error, tensor)
  }

  async #prepare(version: ModelVersion): Promise<Tensor> {
    const plan = await this.#endpoint.planOf(version)
    this.#plan = plan
    const { input } = plan
    const rows = this.#request.uploads
    const shape = (one: Shape): Shape => (version.signature.isBatching ? [rows.length, ...one] : one)
    if (input.dataType === 'BYTES') {
      const contents = await Promise.all(this.#each(({ bytes }) => (plan.kind === 'text' ? textOf(bytes) : bytes)))
      this.reserve(contents.reduce((sum, { length }) => sum + length + 4, 0))
      const elements = await this.#inSlices(bytesElementsInSteps(contents.map((bytes) => [bytes])))
      return new Tensor(input.name, 'BYTES', shape(plan.shape), elements)
    }
    if (plan.audio !== null) return this.#sound(plan, shape)
    const rowBytes = elementCount(plan.shape) * elementBytes[input.dataType]
    // The elements of all pictures; of a few at a time the pixels, and the copy of the file for the process that decodes it.
    const { picturesAtOnce } = this.#endpoint.decoder
    const largest = rows.reduce((most, { bytes }) => Math.max(most, bytes.length), 0)
    this.reserve(rowBytes * rows.length + Math.min(picturesAtOnce, rows.length) * (rowBytes + largest))
    const bytes = new Uint8Array(rowBytes * rows.length)
    const { signal } = this.#work
    // A form may have more pictures than the line of the decoder: they come to it a few at a time, which leaves room for those of others.
    const turns = new Turnstile(picturesAtOnce)
    await Promise.all(
      this.#each((row, i) => {
        const target = bytes.subarray(i * rowBytes, (i + 1) * rowBytes)
        return turns.pass(() => this.#picture(row.bytes, plan, target), { signal })
      }),
    )
    return new Tensor(input.name, input.dataType, shape(plan.shape), bytes)
  }

  async #picture(file: Buffer, plan: UploadPlan, target: Uint8Array): Promise<void> {
    const image = plan.image as NonNullable<UploadPlan['image']>
    const pixels = await this.#endpoint.decoder.decode(file, image, this.#work.signal)
    await this.#inSlices(writePixels(pixels, plan.input.dataType as FixedSizeType, image, target))
    freeBytes(pixels)
    // The run of the model has a turn of its own.
    await new Promise(setImmediate)
  }

  async #sound({ input, audio, shape: one }: UploadPlan, shape: (one: Shape) => Shape): Promise<Tensor> {
    const { sampleRate, samples: wanted } = audio as NonNullable<UploadPlan['audio']>
    const { uploads } = this.#request
    const files = await Promise.all(
      this.#each(({ bytes }) => {
        const file = readWaveFile(bytes)
        return { file, length: sampleCount(file, sampleRate) }
      }),
    )
    const length = wanted === -1 ? Math.max(...files.map((each) => each.length)) : wanted
    const width = elementBytes[input.dataType]
    const frames = files.reduce((sum, { file }) => sum + framesFor(file, sampleRate, length), 0)
    this.reserve(uploads.length * length * (width + 4) + frames * 4)
    const bytes = new Uint8Array(uploads.length * length * width)
    for (const [row, { file }] of files.entries()) {
      // A shorter sound ends in silence, and of a longer one the beginning is taken.
      const samples = await this.#inSlices(waveSamples(file, sampleRate, length))
      const place = bytes.subarray(row * length * width)
      if (input.dataType === 'FP32') new Float32Array(place.buffer, place.byteOffset, length).set(samples)
      else await this.#inSlices(writeInt16(samples, new Int16Array(place.buffer, place.byteOffset, length)))
    }
    return new Tensor(input.name, input.dataType, shape(one.map((dim) => (dim === -1 ? length : dim))), bytes)
  }

  /** What is wrong with one of several files is told with its name. */
  #each<T>(read: (upload: Upload, index: number) => T | Promise<T>): Promise<T>[] {
    const { uploads } = this.#request
    return uploads.map(async (upload, i) => {
      try {
        return await read(upload, i)
      } catch (reason) {
        if (uploads.length === 1) throw reason
        throw ServerError.from(reason, `file ${i + 1} of ${uploads.length}, '${upload.fileName}': `)
      }
    })
  }

  #inSlices<T>(steps: Generator<void, T>): Promise<T> {
    return inSlices(this.parts.clock, steps, () => !this.#work.signal.aborted, shortSliceNs)
  }

  protected override write(response: InferenceResponse): void {
    const plan = this.#plan as UploadPlan
    const { topK, uploads } = this.#request
    const body = writeUploadAnswer(response, {
      plan,
      topK: topK === 0 ? plan.topK : topK,
      fileNames: uploads.map(({ fileName }) => fileName),
      version: this.version,
      isBatching: this.version.signature.isBatching,
    })
    // A trace shows tensors, and a rollout copies them.
    const isFree = this.watch === null && this.request?.trace === null
    if (isFree && this.#tensor !== null) freeInput(this.#tensor.bytes, this.version, response)
    response.release()
    this.answering.respond(jsonResponse(body))
  }
}

/** Without the mark that programs on Windows begin a text with. */
function textOf(bytes: Buffer): Buffer {
  if (!isUtf8(bytes)) throw invalid('the uploaded text is not UTF-8: save it with that encoding')
  return bytes.subarray(bytes.toString('latin1', 0, 3) === '\xef\xbb\xbf' ? 3 : 0)
}
