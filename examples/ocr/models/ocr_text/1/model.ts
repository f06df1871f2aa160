// Probabilities of characters along each line → words.

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fromStrings, tensor, type ModelArgs, type ModelRequest } from 'galatea/model'

export const config = {
  input: [
    { name: 'SCORES', dataType: 'FP32', dims: [-1, -1, 6625] },
    { name: 'BOXES', dataType: 'INT32', dims: [-1, 4] },
  ],
  output: [
    { name: 'TEXT', dataType: 'BYTES', dims: [-1] },
    { name: 'CONFIDENCE', dataType: 'FP32', dims: [-1] },
    { name: 'BOX', dataType: 'INT32', dims: [-1, 4] },
  ],
}

/** The first is "no character", the last a space: neither is in the file. */
let characters: readonly string[] = []

export function initialize({ versionDirectory }: ModelArgs) {
  const keys = readFileSync(path.join(versionDirectory, 'keys.txt'), 'utf8').replace(/\n$/, '').split(/\r?\n/)
  characters = ['', ...keys, ' ']
}

/** A line that the network can hardly read is left out. */
const threshold = 0.5

export function infer(request: ModelRequest) {
  const [, places = 0, classes = 0] = request.input('SCORES').shape
  const scores = request.input('SCORES').asFloat32()
  const boxes = request.input('BOXES').asInt32()
  const found: { text: string; confidence: number; box: Int32Array }[] = []
  for (let line = 0; line < boxes.length / 4; line++) {
    const read = decode(scores.subarray(line * places * classes, (line + 1) * places * classes), places, classes)
    if (read.text === '' || read.confidence < threshold) continue
    found.push({ ...read, box: boxes.subarray(4 * line, 4 * line + 4) })
  }
  return [
    fromStrings(
      'TEXT',
      [found.length],
      found.map(({ text }) => text),
    ),
    tensor(
      'CONFIDENCE',
      'FP32',
      [found.length],
      found.map(({ confidence }) => confidence),
    ),
    tensor(
      'BOX',
      'INT32',
      [found.length, 4],
      found.flatMap(({ box }) => [...box]),
    ),
  ]
}

/** The best character at each place; one that goes on is not repeated. */
function decode(scores: Float32Array, places: number, classes: number): { text: string; confidence: number } {
  let text = ''
  let sum = 0
  let count = 0
  let last = 0
  for (let place = 0; place < places; place++) {
    let best = 0
    for (let c = 1; c < classes; c++) {
      if ((scores[place * classes + c] ?? 0) > (scores[place * classes + best] ?? 0)) best = c
    }
    if (best !== 0 && best !== last) {
      text += characters[best] ?? ''
      sum += scores[place * classes + best] ?? 0
      count++
    }
    last = best
  }
  return { text: text.trim(), confidence: count === 0 ? 0 : sum / count }
}
