// Asks the ResNet-50 of this folder, with the smaller ones of variants.py where they are, about the same image and compares their answers with PyTorch's own, then measures each
// with galatea perf: npx node examples/resnet50/compare.ts [http server] [folder of the models]

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
// In your own project: from 'galatea/client'
import { createHttpClient } from '../../src/client/node.ts'

const server = process.argv[2] ?? 'localhost:8000'
const models = process.argv[3] ?? path.join(import.meta.dirname, 'models')
const text = await readFile(path.join(models, 'answers.json'), 'utf8')
const { image, shape, scores } = JSON.parse(text) as Record<'image' | 'shape' | 'scores', number[]>
const client = createHttpClient({ url: server })
const launcher = path.join(import.meta.dirname, '../../bin/galatea.js')

/** By how much of the largest score a model may differ: the same weights in another file, in half precision, in 8 bits. */
const tolerances = {
  resnet50_script: 1e-3,
  resnet50_program: 1e-3,
  resnet50_onnx: 1e-3,
  resnet50_fp16: 1e-2,
  resnet50_int8: 0.2,
}

/** Eight requests at a time, 40 of them: enough to tell the models apart, not to publish. */
async function requestsPerSecond(model: string): Promise<number> {
  const load = ['--concurrency-range', '8', '--request-count', '40', '--warmup-request-count', '8']
  const perf = [launcher, 'perf', '-m', model, '-u', server, '--shape', `image:${shape.slice(1).join(',')}`, ...load]
  const { stdout } = await promisify(execFile)(process.execPath, perf)
  const found = /Throughput: ([\d.]+) infer\/sec/.exec(stdout)
  if (found?.[1] === undefined) throw new Error(`galatea perf said:\n${stdout}`)
  return Number(found[1])
}

for (const [model, tolerance] of Object.entries(tolerances)) {
  if (!existsSync(path.join(models, model))) continue
  const result = await client.infer(model, { image: { dataType: 'FP32', shape, data: Float32Array.from(image) } })
  const answer = [...result.output('OUTPUT__0').float32()]
  const largest = Math.max(...scores.map(Math.abs))
  const difference = Math.max(...scores.map((score, index) => Math.abs(score - (answer[index] ?? NaN)))) / largest
  if (!(difference < tolerance)) throw new Error(`${model} answers differently: by ${difference} of the largest score`)
  const rate = await requestsPerSecond(model)
  process.stdout.write(
    `${model.padEnd(17)} ${rate.toFixed(1).padStart(8)} images/s, differs by ${difference.toExponential(1)}\n`,
  )
}
