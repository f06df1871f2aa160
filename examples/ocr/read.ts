// Which words are in the picture? npx node examples/ocr/read.ts [picture.png] [server]

import { readFile } from 'node:fs/promises'
import path from 'node:path'
// In your own project: from 'galatea/client'
import { createHttpClient } from '../../src/client/node.ts'

const picture = process.argv[2] ?? path.join(import.meta.dirname, 'receipt.png')
const client = createHttpClient({ url: process.argv[3] ?? 'localhost:8000' })
const answer = await client.infer('ocr', { IMAGE: { data: [await readFile(picture)], shape: [1] } })
const confidences = answer.output('CONFIDENCE').data
for (const [index, text] of answer.output('TEXT').strings().entries()) {
  process.stdout.write(`${(Number(confidences[index]) * 100).toFixed(0)}% ${text}\n`)
}
