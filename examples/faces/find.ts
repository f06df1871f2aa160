// Finds the faces on a picture: npx node examples/faces/find.ts picture.jpg [server]

import { readFile } from 'node:fs/promises'
// In your own project: from 'galatea/client'
import { createHttpClient } from '../../src/client/node.ts'

const [file = '', url = 'http://localhost:8000'] = process.argv.slice(2)
const client = createHttpClient({ url })
const answer = await client.infer('faces', { IMAGE: { data: [await readFile(file)], shape: [1] } })
const scores = answer.output('SCORE').float32()
const [boxes, points] = [answer.output('BOX').float32(), answer.output('POINTS').float32()]
const rounded = (values: Float32Array): string => [...values].map(Math.round).join(' ')
for (const [face, score] of scores.entries()) {
  const [eyeX = 0, eyeY = 0] = points.subarray(face * 10)
  const box = rounded(boxes.subarray(face * 4, face * 4 + 4))
  process.stdout.write(
    `${(100 * score).toFixed(1)} % face at ${box}, an eye at ${rounded(Float32Array.of(eyeX, eyeY))}\n`,
  )
}
