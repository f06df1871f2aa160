// The example models do what their READMEs say, asked over HTTP.

import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { drawDigit } from '../../examples/images/draw-digits.ts'
import { httpInfer, type JsonTensor } from './http-infer.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

type HeldOut = { readonly label: number; readonly pixels: readonly number[] }

const digitsFolder = path.join(exampleModels, 'digits')
const names = readFileSync(path.join(digitsFolder, 'labels.txt'), 'utf8').trim().split('\n')
const heldOut: readonly HeldOut[] = readFileSync(path.join(digitsFolder, 'held-out.csv'), 'utf8')
  .trim()
  .split('\n')
  .slice(1)
  .map((line) => {
    const [label = NaN, ...pixels] = line.split(',').map(Number)
    return { label, pixels }
  })

let server: ServerProcess

before(async () => {
  server = await startServerProcess([`--model-repository=${exampleModels}`])
})

after(async () => {
  await server?.stop()
})

const pixelsOf = (digits: readonly HeldOut[]): JsonTensor => ({
  name: 'pixels',
  datatype: 'FP32',
  shape: [digits.length, 64],
  data: digits.flatMap((digit) => digit.pixels),
})

const rowsOf = (tensor: JsonTensor | undefined): number[][] => {
  assert.ok(tensor !== undefined)
  const [rows = 0, columns = 0] = tensor.shape
  return Array.from({ length: rows }, (_, row) => tensor.data.slice(row * columns, (row + 1) * columns).map(Number))
}

const likeliest = (scores: readonly number[]): number => scores.indexOf(Math.max(...scores))

const scoresOf = async (pixels: JsonTensor): Promise<number[][]> => {
  const { outputs, error } = await httpInfer(server.url, 'digits', [pixels])
  assert.equal(error, '')
  return rowsOf(outputs[0])
}

const batchesOf = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, index) => items.slice(index * size, (index + 1) * size))

test('digits recognises at least 97 % of the held-out digits, and as many as its README says', async () => {
  let recognised = 0
  for (const batch of batchesOf(heldOut, 64)) {
    const scores = await scoresOf(pixelsOf(batch))
    assert.equal(scores.length, batch.length)
    recognised += batch.filter((digit, row) => likeliest(scores[row] ?? []) === digit.label).length
  }
  assert.ok(recognised / heldOut.length >= 0.97, `${recognised} of ${heldOut.length}`)
  const claim = /recognises (\d+) of (\d+) held-out digits/.exec(
    readFileSync(path.join(digitsFolder, 'README.md'), 'utf8'),
  )
  assert.deepEqual(claim?.slice(1, 3).map(Number), [recognised, heldOut.length])
})

test('digits gives probabilities, the same alone and in a batch', async () => {
  const few = heldOut.slice(0, 8)
  const together = await scoresOf(pixelsOf(few))
  for (const [row, digit] of few.entries()) {
    const [alone = []] = await scoresOf(pixelsOf([digit]))
    assert.ok(Math.abs(alone.reduce((sum, score) => sum + score, 0) - 1) < 1e-5)
    for (const [index, score] of alone.entries()) assert.ok(Math.abs(score - (together[row]?.[index] ?? NaN)) < 1e-5)
  }
})

test('digits answers a request for classes with the labels', async () => {
  const [digit] = heldOut
  assert.ok(digit !== undefined)
  const wanted = [{ name: 'scores', parameters: { classification: 3 } }]
  const { outputs } = await httpInfer(server.url, 'digits', [pixelsOf([digit])], wanted)
  assert.deepEqual([outputs[0]?.datatype, outputs[0]?.shape], ['BYTES', [1, 3]])
  assert.match(String(outputs[0]?.data[0]), new RegExp(`^0\\.\\d{6}:${digit.label}:${names[digit.label]}$`))
})

test('the model file of digits stays under 200 KB', () => {
  assert.ok(statSync(path.join(digitsFolder, '1/model.onnx')).size <= 200_000)
})

const pngText = (name: string): string =>
  readFileSync(path.join(projectRoot, 'examples/images', `${name}.png`)).toString('base64')

const image = (...elements: string[]): JsonTensor => ({
  name: 'image',
  datatype: 'BYTES',
  shape: [elements.length, 1],
  data: elements,
})

const recogniseWith = async (input: JsonTensor): Promise<number[]> => {
  const { outputs, error } = await httpInfer(server.url, 'digit_image', [input])
  assert.equal(error, '')
  assert.ok(outputs[0] !== undefined)
  return (await scoresOf(outputs[0])).map(likeliest)
}

test('every sample picture is recognised through digit_image and digits, all ten in one request', async () => {
  assert.deepEqual(await recogniseWith(image(...names.map(pngText))), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
})

test('digit_image takes a PNG with the prefix of a data URL', async () => {
  assert.deepEqual(await recogniseWith(image(`data:image/png;base64,${pngText('four')}`)), [4])
})

test('digit_image takes raw grey pixels, white on black and black on white, large and small', async () => {
  for (const side of [28, 64, 200]) {
    const dark = [3, 5, 9].map((digit) => Array.from(drawDigit(digit, side, 0.1)))
    const light = dark.map((pixels) => pixels.map((pixel) => 255 - pixel))
    const data = [...dark, ...light].flat()
    const input: JsonTensor = { name: 'grey', datatype: 'UINT8', shape: [6, side, side], data }
    assert.deepEqual(await recogniseWith(input), [3, 5, 9, 3, 5, 9])
  }
})

test('held-out digits enlarged to pictures are still recognised after digit_image', async () => {
  const side = 40
  let recognised = 0
  for (const batch of batchesOf(heldOut, 16)) {
    const data = batch.flatMap(({ pixels }) =>
      Array.from({ length: side * side }, (_, index) => {
        const [row, column] = [Math.floor(index / side / 4) - 1, Math.floor((index % side) / 4) - 1]
        const isInside = row >= 0 && row < 8 && column >= 0 && column < 8
        return isInside ? (pixels[row * 8 + column] ?? 0) * 15 : 0
      }),
    )
    const digits = await recogniseWith({ name: 'grey', datatype: 'UINT8', shape: [batch.length, side, side], data })
    recognised += batch.filter((digit, row) => digits[row] === digit.label).length
  }
  assert.ok(recognised / heldOut.length >= 0.97, `${recognised} of ${heldOut.length}`)
})

const grey = (height: number, width: number, data: readonly number[]): JsonTensor => ({
  name: 'grey',
  datatype: 'UINT8',
  shape: [1, height, width],
  data,
})
const refusals: readonly (readonly [what: string, inputs: readonly JsonTensor[], text: RegExp])[] = [
  ['a file that is no PNG', [image('hello')], /picture 0: this is not a PNG file/],
  ['the second of two pictures when it is broken', [image(pngText('one'), 'x')], /picture 1: this is not a PNG file/],
  ['an empty element', [image('')], /picture 0: this is not a PNG file/],
  ['a PNG that was cut short', [image(pngText('one').slice(0, 100))], /cut short/],
  [
    'a picture without a digit',
    [
      grey(
        4,
        4,
        Array.from({ length: 16 }, () => 7),
      ),
    ],
    /there is no digit to be seen/,
  ],
  ['a picture without pixels', [grey(0, 4, [])], /between 1 and/],
  ['both inputs at once', [image(pngText('one')), grey(1, 1, [1])], /give one of the inputs/],
]

for (const [what, inputs, text] of refusals) {
  test(`digit_image refuses ${what} with 400 and the reason`, async () => {
    const { status, error } = await httpInfer(server.url, 'digit_image', inputs)
    assert.match(error, text)
    assert.equal(status, 400)
  })
}
