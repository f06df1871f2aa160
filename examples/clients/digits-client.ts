// Which digit is in the picture? With nothing but fetch: npx node examples/clients/digits-client.ts [picture.png] [server]

import { readFile } from 'node:fs/promises'
import path from 'node:path'

type Tensor = {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly data: readonly (number | string)[]
}
type InferBody = {
  readonly inputs: readonly Tensor[]
  readonly outputs?: readonly { readonly name: string; readonly parameters: { readonly classification: number } }[]
}

const picture = process.argv[2] ?? path.join(import.meta.dirname, '../images/seven.png')
const server = process.argv[3] ?? 'localhost:8000'

const infer = async (model: string, body: InferBody): Promise<readonly Tensor[]> => {
  const response = await fetch(`http://${server}/v2/models/${model}/infer`, {
    method: 'POST',
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as { outputs: Tensor[] } | { error: string }
  if ('error' in answer) throw new Error(`${model}: ${answer.error}`)
  return answer.outputs
}

// JSON carries the file as base64 text.
const file = (await readFile(picture)).toString('base64')
const pixels = await infer('digit_image', {
  inputs: [{ name: 'image', datatype: 'BYTES', shape: [1, 1], data: [file] }],
})
// What digit_image answers is what digits takes.
const [scores] = await infer('digits', {
  inputs: pixels,
  outputs: [{ name: 'scores', parameters: { classification: 3 } }],
})
for (const line of scores?.data ?? []) {
  const [probability, , label = ''] = String(line).split(':')
  process.stdout.write(`${label.padEnd(8)}${(Number(probability) * 100).toFixed(1)}%\n`)
}
