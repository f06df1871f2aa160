// POST /predict and /v2/models/{model}/predict: pictures, sounds and texts as a client sends them, and what is refused.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { after, test } from 'node:test'
import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { SystemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { PictureDecoder } from '../../src/frontends/upload/picture-decoder.ts'
import type { ImagePlan } from '../../src/protocol/upload/upload-plan.ts'
import { until } from '../until.ts'
import { answerWithCopy } from '../fakes/held-instance.ts'
import { inject, type InjectedRequest } from '../fakes/injected-request.ts'
import { waveFile } from '../fakes/wave-file.ts'
import { startHttpFixture } from './http-fixture.ts'
import { writeInt16 } from '../../src/protocol/upload/wave-file.ts'

const config = (type: string, dims: string, hints: Readonly<Record<string, string>>, batch = 4): string =>
  `max_batch_size: ${batch} input { name: "IN" data_type: TYPE_${type} dims: [ ${dims} ] }
   output { name: "OUT" data_type: TYPE_${type} dims: [ ${dims} ] } ${Object.entries(hints)
     .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`)
     .join(' ')}`
const model = (...given: Parameters<typeof config>) => ({ config: config(...given), run: answerWithCopy })
const image: Readonly<Record<string, string>> = { predict: 'image' }

let runs = 0
let lookAtMemory = (): void => undefined
const fixture = await startHttpFixture(
  {},
  {
    planar: model('FP32', '3, 2, 2', image),
    together: model('UINT8', '2, 2, 3', image),
    reversed: model('FP32', '2, 2, 3', { ...image, 'predict.channels': 'BGR', 'predict.scale': '1' }),
    grey: model('INT32', '1, 2, 2', image),
    sharp: model('INT32', '1, 2, 2', { ...image, 'predict.fit': 'stretch', 'predict.resample': 'nearest' }),
    flat: model('FP64', '4', { ...image, 'predict.size': '2', 'predict.channels': 'grey', 'predict.scale': '-16/255', 'predict.mean': '-16' }), // prettier-ignore
    normal: model('FP32', '3, 1, 1', { ...image, 'predict.mean': '0.5,0.25,0', 'predict.std': '0.5,0.25,1' }),
    half: model('FP16', '3, 1, 1', image),
    open: model('FP32', '3, -1, -1', { ...image, 'predict.size': '1x2' }),
    whole: model('FP32', '1, 3, 1, 1', image, 0),
    cut: model('FP32', '1, 2, 2', { ...image, 'predict.resize': '4', 'predict.scale': '1' }),
    padded: model('UINT8', '1, 4, 4', { ...image, 'predict.fit': 'pad' }),
    large: model('UINT8', '3, 400, 400', image),
    scores: model('FP32', '4', { ...image, 'predict.size': '2', 'predict.channels': 'grey', 'predict.softmax': 'true' }), // prettier-ignore
    file: model('STRING', '1', image),
    sound: model('FP32', '-1', { predict: 'audio', 'predict.sample_rate': '8000' }),
    short: model('INT16', '1, 4', { predict: 'audio' }),
    words: model('STRING', '1', { predict: 'text' }),
    counted: { ...model('STRING', '1', { predict: 'text' }), run: (request) => (runs++, answerWithCopy(request)) },
    many: model('UINT8', '1, 1, 3', image, 400),
    held: { ...model('FP32', '3, 2, 2', image), run: (request) => (lookAtMemory(), answerWithCopy(request)) },
    heard: {
      ...model('FP32', '-1', { predict: 'audio' }),
      run: (request) => (lookAtMemory(), answerWithCopy(request)),
    },
    none: model('FP32', '3, 8, 8', {}),
    silent: model('FP32', '-1', {}),
    wrong: model('FP32', '3, 8, 8', { ...image, 'predict.input': 'PIXELS' }),
  },
)
after(() => fixture.close())

type Prediction = { file?: string; values?: unknown[]; classes?: { index: number; score: number }[] }
type Answer = { status: number; error?: string; predictions?: Prediction[] }

async function ask(path: string, body: Uint8Array | string, contentType = 'image/png'): Promise<Answer> {
  const headers = [['Content-Type', contentType]] as const
  const answer = await inject(fixture.frontend, { method: 'POST', path, headers, body })
  return { status: answer.status, ...(JSON.parse(answer.body.toString()) as object) }
}
const predict = (name: string, body: Uint8Array | string, type?: string): Promise<Answer> =>
  ask(`/v2/models/${name}/predict`, body, type)
async function values(name: string, body: Uint8Array | string): Promise<unknown[]> {
  const { error, predictions } = await predict(name, body)
  assert.equal(error, undefined)
  return predictions?.[0]?.values ?? predictions?.[0]?.classes ?? []
}
async function refused(name: string, body: Uint8Array | string, type?: string): Promise<string> {
  const { status, error = '' } = await predict(name, body, type)
  assert.equal(status, 400, error)
  return error
}

/** Two rows of two pixels: red, green; blue, white. */
const pixels = Uint8Array.of(255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255)
const raw = { raw: { width: 2, height: 2, channels: 3 } } as const
const png = await sharp(pixels, raw).png().toBuffer()
const grey = (bytes: readonly number[], width: number): Promise<Buffer> =>
  sharp(Uint8Array.from(bytes), { raw: { width, height: bytes.length / width, channels: 1 } })
    .png()
    .toBuffer()
const dot = await sharp(Uint8Array.of(255, 127.5, 0), { raw: { width: 1, height: 1, channels: 3 } }).png().toBuffer() // prettier-ignore

/** The processes that decode pictures for this one. */
const decoders = (): string[] =>
  readdirSync('/proc').filter((entry) => {
    try {
      const isOwn = readFileSync(`/proc/${entry}/status`, 'latin1').includes(`\nPPid:\t${process.pid}\n`)
      return isOwn && readFileSync(`/proc/${entry}/cmdline`, 'latin1').includes('picture-program')
    } catch {
      return false
    }
  })

test('what decodes pictures yields to the others', { skip: process.platform !== 'linux' }, async () => {
  assert.equal((await predict('planar', png)).status, 200)
  const [decoder = ''] = decoders()
  const niceOf = (name: string): number[] =>
    readdirSync(`/proc/${decoder}/task`)
      .filter((thread) => readFileSync(`/proc/${decoder}/task/${thread}/comm`, 'latin1').startsWith(name))
      .map((thread) => getPriority(Number(thread)))
  const lowered = Math.min(19, getPriority(process.pid) + 10)
  for (const name of ['libuv-worker', 'libvips']) {
    assert.ok(niceOf(name).length > 0, name)
    assert.ok(
      niceOf(name).every((nice) => nice === lowered),
      name,
    )
  }
  // Threads of V8 here yield less: the main thread waits for a part of what they do.
  const collectors = readdirSync('/proc/self/task').filter((thread) =>
    readFileSync(`/proc/self/task/${thread}/comm`, 'latin1').startsWith('node-V8Worker'),
  )
  assert.ok(collectors.length > 0)
  for (const thread of collectors) {
    assert.equal(getPriority(Number(thread)), Math.min(19, getPriority(process.pid) + 5))
  }
  // Of all processes this one goes first where memory runs out.
  await until(() => readFileSync(`/proc/${decoder}/oom_score_adj`, 'latin1') === '800\n', 'the score')
})

test(
  'a picture that ends the process that decodes it gets an error, and the next one another process',
  { skip: process.platform !== 'linux' },
  async () => {
    const large = await sharp({ create: { width: 4000, height: 4000, channels: 3, background: '#123' } }).webp().toBuffer() // prettier-ignore
    assert.equal((await predict('planar', png)).status, 200)
    const [decoder = ''] = decoders()
    process.kill(Number(decoder), 'SIGSTOP')
    const answer = predict('planar', large)
    // The picture is on its way to a process that does not look at it.
    await new Promise((resolve) => setImmediate(resolve))
    process.kill(Number(decoder), 'SIGSEGV')
    process.kill(Number(decoder), 'SIGCONT')
    const { status, error = '' } = await answer
    assert.equal(status, 503)
    assert.match(error, /^the process that decodes pictures ended with this picture: it was ended by SIGSEGV/)
    assert.deepEqual(await values('planar', png), [1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1])
    assert.notDeepEqual(decoders(), [decoder])
  },
)

test('pixels come in the order, the type and the range that the model asks for', async () => {
  assert.deepEqual(await values('planar', png), [1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1])
  assert.deepEqual(await values('together', png), [...pixels])
  assert.deepEqual(await values('reversed', png), [0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 255])
  const four = await grey([0, 51, 102, 255], 2)
  assert.deepEqual(await values('grey', four), [0, 51, 102, 255])
  const { predictions } = await predict('flat', four)
  const classes = predictions?.[0]?.classes?.map(({ index, score }) => [index, Math.round(score * 10) / 10])
  assert.deepEqual(classes, [[0, 16], [1, 12.8], [2, 9.6], [3, 0]]) // prettier-ignore
  assert.deepEqual((await scored('normal', dot)).map(round), [1, (127 / 255 - 0.25) / 0.25, 0].map(round))
  assert.deepEqual(
    (await scored('half', dot)).map((value) => Math.round(value * 1000)),
    [1000, 498, 0],
  )
  assert.equal((await predict('open', png)).status, 200)
  assert.equal((await predict('whole', png)).status, 200)
})

const round = (value: number): number => Math.round(value * 1e5)
/** Scores in the order of the classes. */
async function scored(name: string, body: Uint8Array, topK = 5): Promise<number[]> {
  const { error, predictions } = await ask(`/v2/models/${name}/predict?top_k=${topK}`, body)
  assert.equal(error, undefined)
  const classes = predictions?.[0]?.classes ?? []
  return classes.sort((a, b) => a.index - b.index).map(({ score }) => score)
}

test('a picture of another shape is cut, distorted or given a border', async () => {
  // 2 high, 4 wide; the middle two columns are white.
  const wide = await grey([0, 255, 255, 0, 0, 255, 255, 0], 4)
  assert.deepEqual(await values('grey', wide), [255, 255, 255, 255])
  // Its shorter side becomes 4 first, so 2 of 8 columns and 2 of 4 rows are left.
  assert.deepEqual(await values('cut', wide), [255, 255, 255, 255])
  const bordered = (await values('padded', await grey([255, 255], 2))) as number[]
  assert.deepEqual([bordered.slice(0, 4), bordered.slice(4, 8)], [[0, 0, 0, 0], [255, 255, 255, 255]]) // prettier-ignore
})

test('JPEG, PNG, WebP and the first picture of a GIF are decoded, alone and in forms', async () => {
  const red = sharp({ create: { width: 40, height: 30, channels: 3, background: '#f00' } })
  const frames = Buffer.concat([Buffer.alloc(40 * 30 * 3, Buffer.of(255, 0, 0)), Buffer.alloc(40 * 30 * 3)])
  const gif = sharp(frames, { raw: { width: 40, height: 60, channels: 3, pageHeight: 30 } }).gif()
  const files = { 'a.jpg': red.clone().jpeg(), 'b.png': red.clone().png(), 'c.webp': red.clone().webp(), 'd.gif': gif }
  const form = new FormData()
  for (const [name, picture] of Object.entries(files)) {
    const bytes = await picture.toBuffer()
    const [first = 0, second = 9] = (await values('together', bytes)) as number[]
    assert.ok(first > 245 && second < 10, `${name}: ${first}, ${second}`)
    form.append('file', new Blob([bytes]), name)
  }
  const body = new Response(form)
  const type = body.headers.get('content-type') ?? ''
  const { predictions } = await ask('/predict?model=together', await body.bytes(), type)
  assert.deepEqual(predictions?.map(({ file }) => file), Object.keys(files)) // prettier-ignore
  form.set('file', new Blob([png]), 'a.png')
  form.append('file', new Blob([]), 'b.png')
  const empty = new Response(form)
  assert.match(await refused('together', await empty.bytes(), empty.headers.get('content-type') ?? ''), /^file 2 of 2, 'b.png': the upload is empty: /) // prettier-ignore
  for (let i = 0; i < 3; i++) form.append('file', new Blob([png]), 'e.png')
  const five = new Response(form)
  const tooMany = await refused('together', await five.bytes(), five.headers.get('content-type') ?? '')
  assert.equal(tooMany, "5 files were uploaded, and model 'together' takes 4 at a time")
})

test('an answer lists the best classes, as many as were asked for', async () => {
  const four = await grey([0, 255, 51, 102], 2)
  const { predictions } = await ask('/v2/models/scores/predict?top_k=2', four)
  assert.deepEqual(predictions?.[0]?.classes?.map(({ index }) => index), [1, 3]) // prettier-ignore
  const all = await ask('/predict?model=scores&top_k=1000', four)
  const sum = all.predictions?.[0]?.classes?.reduce((total, { score }) => total + score, 0)
  assert.equal(round(sum ?? 0), round(1))
  const path = '/v2/models/scores/predict?top_k=1001'
  assert.equal((await ask(path, four)).error, "top_k must be a whole number from 1 to 1000, got '1001'")
})

test('what cannot be decoded is refused, and a picture bomb before it is decoded', async () => {
  assert.equal(
    await refused('planar', 'hello'),
    'the upload is no picture: expected JPEG, PNG, WebP, GIF by its first bytes',
  )
  assert.match(await refused('planar', png.subarray(0, 40)), /^the PNG picture cannot be decoded: /)
  assert.match(await refused('planar', ''), /^nothing was uploaded: /)
  const others = {
    'an SVG picture or XML': '<svg xmlns="http://www.w3.org/2000/svg"/>',
    'a TIFF picture': 'II*\0\x08\0\0\0',
    'a HEIC picture': '\0\0\0\x18ftypheic',
    'base64, and not the bytes that it stands for': png.toString('base64'),
    'a form without the Content-Type multipart/form-data and its boundary': '--b\r\nContent-Disposition: form-data',
  }
  for (const [name, file] of Object.entries(others)) {
    assert.equal(
      await refused('planar', file),
      `the upload is ${name}: expected JPEG, PNG, WebP, GIF by its first bytes`,
    )
  }
  // 60,000 by 60,000 pixels, in a hundred bytes.
  const bomb = Buffer.from(png)
  bomb.writeUInt32BE(60_000, 16)
  bomb.writeUInt32BE(60_000, 20)
  bomb.writeUInt32BE(crc32(bomb.subarray(12, 29)), 29)
  assert.equal(
    await refused('planar', bomb),
    'the picture has more than 33554432 pixels: send it smaller, or raise --predict-max-pixels',
  )
  assert.match(await refused('large', png), /has 480000 elements, at most 262144 are told here: use POST/)
  const encoded = await inject(fixture.frontend, {
    method: 'POST',
    path: '/predict?model=planar',
    headers: [['Content-Encoding', 'gzip']],
    body: png,
  })
  assert.equal(encoded.status, 400)
  assert.equal((await ask('/predict?model=unknown', png)).status, 404)
  assert.match((await ask('/predict', png)).error ?? '', /^the server has \d+ models: name one/)
})

test('an upload that is too large is no JSON', async () => {
  const request = { method: 'POST', path: '/predict?model=planar', body: png } as const
  const { status, body } = await inject(fixture.frontend, request, 10)
  assert.equal(status, 400)
  assert.match(
    body.toString(),
    new RegExp(`"error":"request body of ${png.length} bytes exceeds the maximum allowed input size`),
  )
})

test('a model without a hint is refused with the lines to add, and a wrong hint with what is wrong', async () => {
  const text = await refused('none', png)
  assert.match(text, /^model 'none' does not say how an upload becomes its input 'IN' \(FP32, \[3,8,8\]\)\./)
  assert.match(text, /\npredict:\n {2}kind: image\n {2}size: 224\n/)
  assert.match(await refused('silent', png), /\npredict:\n {2}kind: audio\n {2}sample_rate: 16000\n/)
  assert.equal(await refused('wrong', png), "'predict.input' of model 'wrong' must be one of IN, got 'PIXELS'")
})

test('a picture is turned as its EXIF data say, wherever they stand', async () => {
  // Two rows of one pixel, which stand beside each other once they are turned.
  const rows = sharp(Uint8Array.of(0, 0, 0, 255, 255, 255), { raw: { width: 1, height: 2, channels: 3 } })
  const turned = (orientation: number) => rows.clone().withMetadata({ orientation })
  const expected = { 1: [0, 0, 255, 255], 3: [255, 255, 0, 0], 6: [255, 0, 255, 0], 8: [0, 255, 0, 255] }
  for (const [orientation, pixels] of Object.entries(expected)) {
    const first = await turned(Number(orientation)).png().toBuffer()
    const at = first.indexOf('eXIf') - 4
    const chunk = first.subarray(at, at + 12 + first.readUInt32BE(at))
    const end = first.length - 12
    const last = Buffer.concat([first.subarray(0, at), first.subarray(at + chunk.length, end), chunk, first.subarray(end)]) // prettier-ignore
    for (const file of [first, last, await turned(Number(orientation)).webp({ lossless: true }).toBuffer()]) {
      assert.deepEqual(((await values('sharp', file)) as number[]).flat(2), pixels, orientation)
    }
  }
})

test('colours are taken as frameworks take them: inks without a press, no profile, brightness by BT.601', async () => {
  const flat = (background: string) => sharp({ create: { width: 32, height: 32, channels: 3, background } })
  const shown = async (name: string, file: Buffer | Promise<Buffer>): Promise<number[]> =>
    ((await values(name, await file)) as number[]).flat(2).slice(0, 3)
  const plain = await shown('together', flat('#f20').png().toBuffer())
  assert.deepEqual(plain, [255, 34, 0])
  const file = await flat('#f20').withIccProfile('p3').png().toBuffer()
  const [red, green] = await sharp(file, { ignoreIcc: true }).raw().toBuffer()
  assert.notDeepEqual([red, green], [255, 34])
  assert.deepEqual((await shown('together', file)).slice(0, 2), [red, green])
  const printed = await flat('#0ff').toColourspace('cmyk').withIccProfile('cmyk').jpeg({ quality: 100 }).toBuffer()
  const [cyan = 0, magenta = 0, yellow = 0, black = 0] = await sharp(printed).pipelineColourspace('cmyk').toColourspace('cmyk').raw().toBuffer() // prettier-ignore
  const light = [cyan, magenta, yellow].map((ink) => Math.round(((255 - ink) * (255 - black)) / 255))
  assert.deepEqual(await shown('together', printed), light)
  assert.deepEqual(await shown('grey', flat('#0f0').png().toBuffer()), [150, 150, 150])
})

test('scans of a JPEG have a limit, because each costs as much as all pixels', async () => {
  const picture = await sharp({ create: { width: 16, height: 16, channels: 3, background: '#123' } }).jpeg({ progressive: true }).toBuffer() // prettier-ignore
  const scan = picture.subarray(picture.lastIndexOf(Buffer.of(0xff, 0xda)), -2)
  const bomb = Buffer.concat([picture.subarray(0, -2), ...Array<Buffer>(100).fill(scan), picture.subarray(-2)])
  assert.equal(await refused('planar', bomb), 'the JPEG picture cannot be decoded: it has more than 100 scans: save it anew') // prettier-ignore
})

test('compressed texts of a PNG have a limit, because they are inflated though nobody reads them', async () => {
  const chunk = (name: string, content: Buffer): Buffer => {
    const whole = Buffer.alloc(12 + content.length)
    whole.writeUInt32BE(content.length)
    whole.write(name, 4, 'latin1')
    content.copy(whole, 8)
    whole.writeUInt32BE(crc32(whole.subarray(4, -4)), whole.length - 4)
    return whole
  }
  const withTexts = (...chunks: Buffer[]): Buffer => Buffer.concat([png.subarray(0, 33), ...chunks, png.subarray(33)])
  const bomb = chunk('zTXt', Buffer.concat([Buffer.from('x\0\0'), deflateSync(Buffer.alloc(8_000_000))]))
  const packed = chunk('iTXt', Buffer.concat([Buffer.from('x\0\x01\0\0\0'), Buffer.alloc(300_000)]))
  const plain = chunk('iTXt', Buffer.concat([Buffer.from('x\0\0\0\0\0'), Buffer.alloc(300_000, 'x')]))
  assert.match(await refused('planar', withTexts(...Array<Buffer>(50).fill(bomb))), /more than 262144 bytes of compressed texts/) // prettier-ignore
  assert.match(await refused('planar', withTexts(packed)), /more than 262144 bytes of compressed texts/)
  assert.equal((await predict('planar', withTexts(bomb, plain))).status, 200)
})

test('of a GIF only the first picture is looked at, and the blocks of that one have a limit', async () => {
  const head = Buffer.from([...Buffer.from('GIF89a'), 2, 0, 2, 0, 0x80, 0, 0, 255, 0, 0, 0, 0, 255])
  const picture = Buffer.from([0x2c, 0, 0, 0, 0, 2, 0, 2, 0, 0, 2, 3, 0x44, 0x34, 0x05, 0])
  const remarks = (count: number): Buffer => Buffer.alloc(3 * count, Buffer.from([0x21, 0xfe, 0]))
  assert.equal((await predict('planar', Buffer.concat([head, remarks(1000), picture, picture]))).status, 200)
  const bomb = Buffer.concat([head, remarks(1_048_577), picture])
  assert.match(await refused('planar', bomb), /more than 1048576 blocks in its first picture or before it/)
})

test('texts of an answer have a limit', async () => {
  assert.match(await refused('words', 'x'.repeat(2_100_000), 'text/plain'), /has 2100004 bytes of text, at most 2097152 are told here: use POST/) // prettier-ignore
})

test('others are served while a long sound becomes INT16', () => {
  const target = new Int16Array(100_000)
  const steps = writeInt16(new Float32Array(100_000).fill(2), target)
  let pauses = 0
  while (steps.next().done !== true) pauses++
  assert.ok(pauses >= 10, `${pauses} pauses`)
  assert.ok(target.every((sample) => sample === 32_767))
})

test('a sound that is too long at the rate of the model is refused for good, however much memory is free', async () => {
  const bomb = waveFile(new Float32Array(3_000_000), 100, 8, 1)
  assert.match(await refused('sound', bomb), /it has 240000000 samples, at most 16777216 are taken/)
})

test('an input of strings gets the file itself', async () => {
  const { predictions } = await predict('file', 'any bytes')
  assert.deepEqual(predictions, [{ values: ['any bytes'] }])
})

test('a text is UTF-8', async () => {
  assert.deepEqual((await predict('words', 'čau', 'text/plain')).predictions, [{ values: ['čau'] }])
  assert.deepEqual((await predict('words', '\ufeffčau', 'text/plain')).predictions, [{ values: ['čau'] }])
  const wrong = Uint8Array.of(0xff, 0xfe)
  const text = 'the uploaded text is not UTF-8: save it with that encoding'
  assert.equal(await refused('words', wrong, 'text/plain'), text)
  const form = new FormData()
  for (const bytes of ['ahoj', wrong]) form.append('file', new Blob([bytes]), 'letter.txt')
  const body = new Response(form)
  const type = body.headers.get('content-type') ?? ''
  assert.equal(await refused('words', await body.bytes(), type), `file 2 of 2, 'letter.txt': ${text}`)
})

test('a sound has one channel and the rate that the model asks for', async () => {
  const tone = (rate: number, hertz: number): Float32Array =>
    Float32Array.from({ length: rate / 4 }, (_, i) => Math.sin((2 * Math.PI * hertz * i) / rate) / 2)
  const loudness = (samples: number[]): number => Math.hypot(...samples) / Math.sqrt(samples.length)
  const heard = async (file: Buffer): Promise<number[]> => scored('sound', file, 1000)
  // A tone stays as loud as it was; one that the new rate cannot have is gone.
  const low = await heard(waveFile(tone(48_000, 440), 48_000, 16, 2))
  const best = Math.max(...low)
  assert.ok(best > 0.48 && best < 0.52, `${best}`)
  const high = await heard(waveFile(tone(48_000, 11_000), 48_000, 24, 1))
  assert.ok(loudness(high) < 0.02, `${loudness(high)}`)
  // Shorter sounds end in silence.
  assert.deepEqual(await scored('short', waveFile(Float32Array.of(0.5, -0.5), 16_000, 32, 1)), [16_384, -16_384, 0, 0])
  assert.deepEqual(await scored('short', waveFile(Float32Array.of(0.5, 0, 0, 0, 1), 8000, 8, 1)), [16_384, 0, 0, 0])
  assert.equal(await refused('sound', png), 'the sound cannot be read: it is a PNG picture, expected WAV')
  assert.match(await refused('sound', 'RIFF'), /^the sound cannot be read: it is no WAV file/)
  const long = waveFile(new Float32Array(0), 8000, 8, 1)
  assert.equal((await predict('sound', long.subarray(0, 30))).status, 400)
  const many = waveFile(new Float32Array(400), 100, 8, 1)
  many.writeUInt16LE(65, 22)
  assert.match(await refused('sound', many), /it has 65 channels, expected 1 to 64/)
  const bomb = waveFile(new Float32Array(300_000), 100, 8, 1)
  assert.match(await refused('sound', bomb), /it has 24000000 samples, at most 16777216 are taken/)
})

test('a form may have as many pictures as the model takes, more than may wait to be decoded', async () => {
  const form = new FormData()
  for (let i = 0; i < 400; i++) form.append('file', new Blob([dot]))
  const body = new Response(form)
  const { predictions, error } = await predict('many', await body.bytes(), body.headers.get('content-type') ?? '')
  assert.equal(error, undefined)
  assert.equal(predictions?.length, 400)
})

test('a form whose client goes away while it is read is no inference', async () => {
  // A part full of beginnings of its boundary takes long to read.
  const text = Buffer.alloc(8 * 1024 * 1024, '\r\n--')
  const body = Buffer.concat([Buffer.from('--b\r\nContent-Disposition: form-data; name="text"\r\n\r\n'), text, Buffer.from('\r\n--b--')]) // prettier-ignore
  const request = { method: 'POST', path: '/v2/models/counted/predict', headers: [['Content-Type', 'multipart/form-data; boundary=b']], body } as const // prettier-ignore
  void inject(fixture.frontend, { ...request, onStart: (client) => setImmediate(() => client.disconnect()) })
  await inject(fixture.frontend, request)
  assert.equal(runs, 1)
})

test('while its model runs, an upload counts as much memory as its input has', async () => {
  const form = new FormData()
  for (let i = 0; i < 4; i++) form.append('file', new Blob([png]))
  const whole = new Response(form)
  const pictures = await whole.bytes()
  const sound = waveFile(new Float32Array(1000), 8000, 16, 2)
  for (const [name, body, type, bytes] of [
    ['held', pictures, whole.headers.get('content-type') ?? '', 4 * 3 * 2 * 2 * 4],
    ['heard', sound, 'audio/wav', 1000 * 4],
  ] as const) {
    let heldBytes = -1
    const onStart = (client: unknown): void => {
      lookAtMemory = () => (heldBytes = (client as InjectedRequest).memory.server.requestBytes)
    }
    const request = { method: 'POST', path: `/v2/models/${name}/predict`, headers: [['Content-Type', type]], body, onStart } as const // prettier-ignore
    assert.equal((await inject(fixture.frontend, request)).status, 200)
    assert.equal(heldBytes, bytes, name)
  }
})

test('the copy of a long text is counted before it is made', async () => {
  const body = Buffer.alloc(16 * 1024 * 1024, 'x')
  const earlierRuns = runs
  let mostBytes = 0
  const onStart = (client: unknown): void => {
    const look = (): void => {
      if (runs > earlierRuns) return
      mostBytes = Math.max(mostBytes, (client as InjectedRequest).memory.server.requestBytes)
      setImmediate(look)
    }
    look()
  }
  await inject(fixture.frontend, { method: 'POST', path: '/v2/models/counted/predict', body, onStart })
  assert.ok(mostBytes >= body.length, `${mostBytes}`)
})

test('256 pictures wait for a thread, and no more', async () => {
  const size = { height: 2, width: 2, channels: 3, isGrey: false, isReversed: false, isPlanar: true, shorterSide: 0 }
  const range = { scale: 1, mean: [0, 0, 0], std: [1, 1, 1] }
  const plan: ImagePlan = { ...size, ...range, fit: 'crop', resample: 'linear' }
  const decoder = new PictureDecoder(new SystemClock(), silentLog, 1000)
  const { signal } = new AbortController()
  await decoder.decode(png, plan, signal)
  const results = await Promise.allSettled(Array.from({ length: 400 }, () => decoder.decode(png, plan, signal)))
  const failed = results.filter(({ status }) => status === 'rejected')
  assert.ok(failed.length > 50 && failed.length < 144, `${failed.length}`)
  assert.match(String((failed[0] as PromiseRejectedResult).reason), /256 pictures wait to be decoded/)
  decoder.close()
})

test(
  'pictures that nobody waits for any more leave the line, and their files with them',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const form = new FormData()
    for (const bytes of ['no picture', png, png, png]) form.append('file', new Blob([bytes]))
    const whole = new Response(form)
    const body = await whole.bytes()
    const type = whole.headers.get('content-type') ?? ''
    assert.equal((await predict('together', png)).status, 200)
    const [decoder = ''] = decoders()
    process.kill(Number(decoder), 'SIGSTOP')
    t.after(() => process.kill(Number(decoder), 'SIGCONT'))
    // One of the files is refused, so the others wait for nobody.
    for (let i = 0; i < 100; i++)
      assert.match(await refused('together', body, type), /^file 1 of 4, 'blob': the upload is no picture/)
    // These clients go away.
    for (let i = 0; i < 300; i++) {
      const path = '/v2/models/together/predict'
      const clients: { disconnect(): void }[] = []
      void inject(fixture.frontend, { method: 'POST', path, body: png, onStart: (client) => clients.push(client) })
      await new Promise(setImmediate)
      clients[0]?.disconnect()
    }
    const answer = predict('together', png)
    await new Promise(setImmediate)
    process.kill(Number(decoder), 'SIGCONT')
    assert.equal((await answer).status, 200)
  },
)
