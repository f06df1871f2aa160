import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ModelConfig } from '../client/web.ts'
import { inputHints } from './input-hints.ts'

const config = (parameters: object, ...inputs: string[]): ModelConfig =>
  ({ max_batch_size: 0, input: inputs.map((name) => ({ name })), output: [], parameters }) as unknown as ModelConfig

const textParameters = (values: Readonly<Record<string, string>>): object =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, { string_value: value }]))

test('galatea.yaml says how each input is filled, in short or with details', () => {
  const extra = { playground: { image: 'picture', sr: { value: 16000 }, sound: { as: 'sound', rate: 8000 } } }
  assert.deepEqual(
    [...inputHints(extra, config({}, 'image', 'sr', 'sound'))],
    [
      ['image', { as: 'picture' }],
      ['sr', { value: '16000' }],
      ['sound', { as: 'sound', rate: 8000 }],
    ],
  )
})

test('what is said about uploads counts for the only input, and config.pbtxt before galatea.yaml', () => {
  const sound = inputHints({ predict: { kind: 'audio', sample_rate: 8000 } }, config({}, 'x'))
  assert.deepEqual(sound.get('x'), { as: 'sound', rate: 8000 })
  const extra = { predict: { kind: 'image', scale: '1/127.5', mean: [1, 2, 3] } }
  const hints = inputHints(extra, config(textParameters({ 'predict.scale': '1/255', 'predict.std': '0.5' }), 'x'))
  assert.deepEqual(hints.get('x'), { scale: 1 / 255, mean: [1, 2, 3, 1], std: [0.5, 0.5, 0.5, 0.5] })
})

test('what makes no sense is left out', () => {
  const extra = { playground: { x: { as: 'piano', ink: 'blue', scale: '1/0', mean: [1, 'a'], rate: {} } }, predict: 7 }
  assert.deepEqual(inputHints(extra, config({}, 'x')).get('x'), {})
  assert.equal(inputHints(null, config({}, 'a', 'b')).size, 0)
})
