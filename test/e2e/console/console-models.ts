// A repository whose models show every widget and every form of output of the playground.

import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { soundOf } from '../../../examples/voice-activity/synthetic-speech.ts'
import { writeWav } from '../../../examples/voice-activity/wav.ts'
import { temporaryRepository } from '../../fixtures/temporary-repository.ts'
import { projectRoot } from '../server-process.ts'

/** Must show as text wherever it shows. */
export const hostileName = '<img src=x onerror=alert(1)>'

const words = `
import { fromStrings } from 'galatea/model'
export const config = {
  decoupled: true,
  input: [{ name: 'text_input', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'text_output', dataType: 'BYTES', dims: [1] }],
}
export async function* infer(request) {
  for (const word of request.input('text_input').asStrings()[0].split(' ')) {
    yield [fromStrings('text_output', [1], [word.toUpperCase()])]
  }
}
`

/** A picture in; its negative, a tone and the picture of a seven as a file out. */
const media = `
import { readFileSync } from 'node:fs'
import { tensor } from 'galatea/model'
export const config = {
  input: [{ name: 'picture', dataType: 'UINT8', dims: [-1, -1, 3] }],
  output: [
    { name: 'negative', dataType: 'UINT8', dims: [-1, -1, 3] },
    { name: 'tone', dataType: 'FP32', dims: [8000] },
    { name: 'file', dataType: 'BYTES', dims: [1] },
  ],
}
const seven = readFileSync(${JSON.stringify(path.join(projectRoot, 'examples/images/seven.png'))})
export function infer(request) {
  const picture = request.input('picture')
  const tone = Float32Array.from({ length: 8000 }, (_, i) => Math.sin((i / 16000) * 440 * 2 * Math.PI))
  return [
    tensor('negative', 'UINT8', picture.shape, picture.asUint8().map((value) => 255 - value)),
    tensor('tone', 'FP32', [8000], tone),
    tensor('file', 'BYTES', [1], [seven]),
  ]
}
`

/** Answers `input * number`; throws at a negative number where it is `touchy`. */
const times = (number: number, isTouchy = false): string => `
import { tensor } from 'galatea/model'
export const config = {
  input: [{ name: 'X', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'Y', dataType: 'INT32', dims: [1] }],
}
export function infer(request) {
  const [value] = request.input('X').asInt32()
  ${isTouchy ? "if (value < 0) throw new Error('no root of a negative number')" : ''}
  return [tensor('Y', 'INT32', [1], [value * ${number}])]
}
`

export const badVersion = times(3, true)

const ensemble = `
platform: "ensemble"
max_batch_size: 16
input { name: "image" data_type: TYPE_STRING dims: 1 }
output { name: "scores" data_type: TYPE_FP32 dims: 10 }
ensemble_scheduling {
  step { model_name: "digit_image" model_version: -1 input_map { key: "image" value: "image" } output_map { key: "pixels" value: "cells" } }
  step { model_name: "digits" model_version: -1 input_map { key: "pixels" value: "cells" } output_map { key: "scores" value: "scores" } }
}
`

const jobLine = (value: number): string =>
  JSON.stringify({ inputs: [{ name: 'X', shape: [1], datatype: 'INT32', data: [value] }] })

type ConsoleModels = {
  readonly root: string
  /** Somebody speaks from second 1 to 2.5 and from 3.5 to 4.5. */
  readonly speech: string
  readonly remove: () => Promise<void>
}

export async function consoleModels(): Promise<ConsoleModels> {
  const voice = path.join(projectRoot, 'examples/voice-activity')
  const { root, remove } = await temporaryRepository({
    'words/1/model.ts': words,
    'media/1/model.js': media,
    'pair/config.pbtxt': 'backend: "typescript"\nversion_policy { all {} }\n',
    'pair/1/model.js': times(2),
    'pair/2/model.js': times(3),
    'steady/config.pbtxt': 'backend: "typescript"\n',
    'steady/1/model.js': times(2),
    'read_digit/config.pbtxt': ensemble,
    'read_digit/1/': '',
    'silero_vad/config.pbtxt': await readFile(path.join(voice, 'models/silero_vad/config.pbtxt'), 'utf8'),
    'silero_vad/galatea.yaml': 'playground:\n  input: { as: sound, rate: 16000 }\n  sr: { value: 16000 }\n',
    'unfit/config.pbtxt': 'backend: "onnxruntime"\nmax_batch_size: 4\nmax_bach_size: 5\n',
    'unfit/1/model.onnx': '',
    '.jobs/in.jsonl': Array.from({ length: 50 }, (_, i) => jobLine(i)).join('\n'),
    [`${hostileName}/config.pbtxt`]: 'backend: "identity"',
    [`${hostileName}/1/model.txt`]: '',
  })
  execFileSync(process.execPath, [path.join(voice, 'get-model.ts'), root])
  const speech = path.join(root, 'speech.wav')
  const spoken = [
    { atSeconds: 1, seconds: 1.5, pitchHz: 120 },
    { atSeconds: 3.5, seconds: 1, pitchHz: 200 },
  ]
  await writeFile(speech, writeWav(soundOf(5, spoken)))
  return { root, speech, remove }
}
