// From training to dashboards in one go: npx node examples/end-to-end/run.ts [folder] [python]
//
// train → export as FP32, FP16 and INT8 → init → check → serve → load → accuracy and perf → metrics → tune → dashboards

import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
// In your own project: from 'galatea/client'
import { createHttpClient } from '../../src/client/node.ts'

const folder = path.resolve(process.argv[2] ?? 'end-to-end')
const python = process.argv[3] ?? 'python3'
const launcher = path.join(import.meta.dirname, '../../bin/galatea.js')
const models = path.join(folder, 'models')
const kinds = ['fp32', 'fp16', 'int8'] as const

const run = promisify(execFile)
const galatea = async (...args: string[]): Promise<string> => (await run(process.execPath, [launcher, ...args])).stdout
const say = (text: string): void => void process.stdout.write(`${text}\n`)

await mkdir(folder, { recursive: true })
await rm(models, { recursive: true, force: true })

say('train and export')
say((await run(python, [path.join(import.meta.dirname, 'train.py'), folder])).stdout.trim())

say('init and check')
for (const kind of kinds) {
  await galatea(
    'init',
    path.join(folder, `${kind}.onnx`),
    `--repository=${models}`,
    `--name=${kind}`,
    '--max-batch-size=64',
  )
}
say((await galatea('check', models)).trim())

say('serve and load')
const server = await serve()
try {
  const client = createHttpClient({ url: server.url })
  for (const kind of kinds) await client.loadModel(kind)
  const rows: string[] = []
  for (const kind of kinds) rows.push(await rowOf(kind))
  say('model   KiB   right   infer/s')
  for (const row of rows) say(row)

  say('metrics')
  const metrics = await (await fetch(server.metrics)).text()
  for (const kind of kinds) {
    const count = new RegExp(`^nv_inference_count\\{model="${kind}"[^}]*\\} (\\d+)`, 'm').exec(metrics)?.[1]
    say(`nv_inference_count of ${kind}: ${count}`)
  }

  say('tune')
  const limits = ['--max-batch-size=8', '--max-instances=1', '--max-concurrency=4', '--window-ms=100', '--minutes=0.1']
  const report = path.join(folder, 'tune.html')
  const state = path.join(folder, 'tune.json')
  const place = ['-u', server.address, `--metrics-url=${server.metrics}`, `--model-repository=${models}`]
  const told = await galatea('tune', '-m', 'int8', ...place, ...limits, `--report=${report}`, `--state=${state}`)
  say(/^Best: .*/m.exec(told)?.[0] ?? told)

  say('dashboards')
  const page = await fetch(`${server.url}/console`)
  say(`console: ${page.status} at ${server.url}/console`)
  say(`reports: ${report}, ${kinds.map((kind) => path.join(folder, `${kind}.html`)).join(', ')}`)

  /** Size, share of held-out digits that are right, and requests in a second, eight at a time. */
  async function rowOf(kind: string): Promise<string> {
    const text = await readFile(path.join(folder, 'held-out.json'), 'utf8')
    const { pixels, labels } = JSON.parse(text) as { pixels: number[][]; labels: number[] }
    let right = 0
    for (let first = 0; first < labels.length; first += 64) {
      const part = pixels.slice(first, first + 64)
      const data = Float32Array.from(part.flat())
      const answer = await client.infer(kind, { pixels: { data, shape: [part.length, 64] } })
      const scores = answer.output('scores').float32()
      for (let row = 0; row < part.length; row++) {
        const chances = scores.subarray(row * 10, row * 10 + 10)
        if (chances.indexOf(Math.max(...chances)) === labels[first + row]) right++
      }
    }
    const load = ['--concurrency-range=8', '--request-count=800', '--warmup-request-count=80', '-b', '16']
    const report = `--report=${path.join(folder, `${kind}.html`)}`
    const measured = await galatea('perf', '-m', kind, '-u', server.address, ...load, report)
    const rate = Number(/Throughput: ([\d.]+) infer\/sec/.exec(measured)?.[1])
    const size = (await stat(path.join(models, kind, '1/model.onnx'))).size / 1024
    const share = ((100 * right) / labels.length).toFixed(1)
    return `${kind} ${size.toFixed(0).padStart(6)} ${share.padStart(5)} % ${rate.toFixed(0).padStart(9)}`
  }
} finally {
  server.child.kill('SIGTERM')
  await server.exited
}

type Started = {
  readonly child: ChildProcess
  readonly exited: Promise<unknown>
  readonly url: string
  readonly address: string
  readonly metrics: string
}

/** A server on ports that the system chooses, which loads what it is asked to load. */
async function serve(): Promise<Started> {
  const ports = ['--http-port=0', '--grpc-port=0', '--metrics-port=0']
  const args = [launcher, 'serve', `--model-repository=${models}`, '--model-control-mode=explicit', ...ports]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'close')
  let output = ''
  const placeOf = (service: string): string | undefined =>
    new RegExp(`Started ${service} at (?:http://)?([^\\s"]+:\\d+)`).exec(output)?.[1]
  await new Promise<void>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString()
      if (placeOf('HTTPService') !== undefined && placeOf('Metrics Service') !== undefined) resolve()
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    void exited.then(() => reject(new Error(`the server ended:\n${output}`)))
  })
  const address = placeOf('HTTPService') ?? ''
  return { child, exited, address, url: `http://${address}`, metrics: `http://${placeOf('Metrics Service')}/metrics` }
}
