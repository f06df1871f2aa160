import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'
import { finishPicture, fitPicture, greyOf, rgbOfInks } from './fit-picture.ts'

const plan = (given: Partial<ImagePlan>): ImagePlan => ({
  height: 1,
  width: 1,
  channels: 3,
  isGrey: false,
  isReversed: false,
  isPlanar: false,
  shorterSide: 0,
  fit: 'stretch',
  resample: 'linear',
  scale: 1,
  mean: [0, 0, 0],
  std: [1, 1, 1],
  ...given,
})

/** The first channel of a grey picture that is larger afterwards. */
function enlarged(width: number, values: readonly number[], given: Partial<ImagePlan>): number[] {
  const wanted = plan(given)
  const fitting = fitPicture({ width, height: values.length / width }, wanted)
  const { across, down } = fitting
  const read: number[] = []
  for (let row = down.from; row < down.to; row++) {
    for (let column = across.from; column < across.to; column++) {
      const value = values[row * width + column] as number
      read.push(value, value, value)
    }
  }
  return [...finishPicture(Uint8Array.from(read), fitting, wanted)].filter((_, i) => i % 3 === 0)
}

const line = [0, 10, 20, 255, 100, 50, 200, 30]

test('a picture that becomes larger has the pixels of Pillow', () => {
  const pillow = [
    ['linear', 16, [0, 3, 8, 13, 18, 79, 196, 216, 139, 88, 63, 88, 163, 158, 73, 30]],
    ['linear', 12, [0, 5, 12, 18, 138, 229, 126, 75, 75, 175, 115, 30]],
    ['cubic', 12, [0, 4, 9, 5, 148, 251, 124, 56, 67, 191, 119, 19]],
    ['lanczos', 20, [0, 1, 9, 13, 0, 0, 41, 154, 246, 245, 168, 80, 31, 39, 102, 182, 193, 123, 45, 0]],
    ['nearest', 16, [0, 0, 10, 10, 20, 20, 255, 255, 100, 100, 50, 50, 200, 200, 30, 30]],
  ] as const
  for (const [resample, length, expected] of pillow) {
    const across = enlarged(8, line, { width: length, resample })
    const down = enlarged(1, line, { height: length, resample })
    assert.ok(
      across.every((value, i) => Math.abs(value - (expected[i] as number)) <= 1),
      `${resample}: ${across.join(' ')}`,
    )
    assert.deepEqual(down, across)
  }
  // Of two pixels, too, some weights are negative.
  const ends = enlarged(2, [0, 255], { width: 8, resample: 'cubic' })
  assert.deepEqual(ends, [0, 0, 22, 89, 166, 233, 255, 255])
})

test('of a picture that becomes larger only what is kept is computed', () => {
  const { across, down } = fitPicture({ width: 1_000_000, height: 1 }, plan({ width: 224, height: 224, fit: 'crop' }))
  assert.deepEqual([across.to - across.from, across.taps?.count, down.taps?.count], [2, 224, 224])
  const middle = enlarged(8, line, { width: 4, height: 2, fit: 'crop' })
  const whole = enlarged(8, line, { width: 16, height: 2 })
  assert.deepEqual(middle.slice(0, 4), whole.slice(6, 10))
})

test('sizes and margins are those of torchvision', () => {
  // Resize(256) and CenterCrop(224) of 500 x 333 pixels: 384 x 256, and the crop begins at (16, 80).
  const photograph = fitPicture({ width: 500, height: 333 }, plan({ width: 224, height: 224, shorterSide: 256 }))
  assert.deepEqual(
    [photograph.across, photograph.down].map(({ size, from, to }) => [size, from, to]),
    [
      [384, 80, 304],
      [256, 16, 240],
    ],
  )
  // Half of a pixel goes to the even side.
  const begins = [8, 9, 10, 11].map((width) => fitPicture({ width, height: 8 }, plan({ width: 8, height: 8, shorterSide: 8 })).across.from) // prettier-ignore
  assert.deepEqual(begins, [0, 0, 1, 2])
  const bordered = enlarged(2, [255, 255], { width: 4, height: 5, fit: 'pad' })
  assert.deepEqual(bordered, [0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0])
})

test('inks and brightness are those of Pillow', () => {
  assert.deepEqual([...greyOf(Uint8Array.of(255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 100, 50))], [76, 150, 29, 124])
  const inks = Uint8Array.of(255, 0, 0, 0, 0, 255, 0, 128, 0, 0, 255, 255, 200, 100, 50, 25)
  assert.deepEqual([...rgbOfInks(inks)], [0, 255, 255, 127, 0, 127, 0, 0, 0, 50, 140, 185])
})
