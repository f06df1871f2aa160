// A server with models worth watching: one that fails now and then, one that batches, one whose answers are kept.

import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { httpInfer, type JsonTensor } from './http-infer.ts'
import { call, reached } from './rollout-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const source = `
export const config = {
  maxBatchSize: 8,
  input: [{ name: 'X', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'X', dataType: 'INT32', dims: [1] }],
}
let seen, sizes
export function initialize({ metrics, modelName }) {
  seen = metrics.counter('rows_seen_total', 'Rows that came by', { model_name: modelName })
  sizes = metrics.histogram('rows_per_request', 'Rows of a request', [1, 2, 4])
}
export async function infer(request) {
  const x = request.input('X')
  seen.increment(x.asInt32().length)
  sizes.observe(x.asInt32().length)
  if (x.asInt32()[0] < 0) throw new Error('negative')
  return [x]
}
`

/** What nvidia-smi of a machine with an H200 says, again and again; the machine that tests run on need not have one. */
const recordedGpu = `#!/bin/sh
while :; do
  echo 'GPU-9b2f5d3d-9a68-ffad-9840-a701808b43a8, NVIDIA H200, 0, 143771, 0, 130.94, 700.00, 0'
  sleep 0.2
done
`

const configs: Readonly<Record<string, string>> = {
  picky: 'backend: "typescript" metric_tags { key: "team" value: "blue" }',
  batched: 'backend: "typescript" dynamic_batching { max_queue_delay_microseconds: 2000 }',
  kept: 'backend: "typescript" response_cache { enable: true }',
}

export type ObservedServer = AsyncDisposable & {
  readonly server: ServerProcess
  /** `127.0.0.1:43567` */
  readonly metricsAddress: string
  /** A rollout that was rolled back, and one that is paused half way. */
  release(): Promise<void>
  /** One request to each model: rows of `value`, a negative one fails. */
  send(value: number, rows?: number): Promise<void>
}

export const rowsOf = (values: readonly number[]): readonly JsonTensor[] => [
  { name: 'X', datatype: 'INT32', shape: [values.length, 1], data: values },
]

export async function startObservedServer(flags: readonly string[] = []): Promise<ObservedServer> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-watched-'))
  const folder = path.join(root, 'models')
  await mkdir(path.join(root, 'bin'))
  await writeFile(path.join(root, 'bin/nvidia-smi'), recordedGpu, { mode: 0o755 })
  for (const [name, config] of Object.entries(configs)) {
    await mkdir(path.join(folder, name, '1'), { recursive: true })
    await writeFile(path.join(folder, name, '1/model.ts'), source)
    await writeFile(path.join(folder, name, 'config.pbtxt'), `${config}\n`)
  }
  const server = await startServerProcess(
    [
      `--model-repository=${folder}`,
      `--state-dir=${path.join(root, 'state')}`,
      '--http-address=127.0.0.1',
      '--cache-config=local,size=1048576',
      '--metrics-interval-ms=200',
      '--model-lazy-load=true',
      ...flags,
    ],
    { environment: { PATH: `${path.join(root, 'bin')}${path.delimiter}${process.env['PATH']}` } },
  )
  const send = async (value: number, rows = 1): Promise<void> => {
    const inputs = rowsOf(Array.from({ length: rows }, () => value))
    await Promise.all(Object.keys(configs).map((model) => httpInfer(server.url, model, inputs)))
  }
  // Models are loaded by their first request, so that there is a cold start to show.
  await send(0)
  return {
    server,
    metricsAddress: server.metricsAddress,
    send,
    release: async () => {
      await cp(path.join(folder, 'picky/1'), path.join(folder, 'picky/2'), { recursive: true })
      const steps = [{ weight: 50, for: '1h' }]
      const judge = { metrics: { errors: { dry_run: true } } }
      for (const [name, action] of Object.entries({ first: 'rollback', second: 'pause' })) {
        await call(server, '/v2/rollouts', { model: 'picky', name, steps, judge, retry: true })
        await reached(server, 'RUNNING')
        await call(server, `/v2/rollouts/${name}/${action}`, {})
        await reached(server, action === 'pause' ? 'PAUSED' : 'ROLLED_BACK')
      }
    },
    [Symbol.asyncDispose]: async () => {
      await server.stop()
      await rm(root, { recursive: true, force: true })
    },
  }
}
