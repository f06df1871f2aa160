// Galatea beside the real TorchServe on the same archive, in turn: `npx node bench/torchserve.bench.ts <bin> [rounds] [seconds]`. <bin> is the
// folder of a virtual environment with `torchserve` and `torch`, where Java is installed. Prints CPU and p99 as shares of TorchServe's.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from '../test/free-port.ts'
import { medianOf } from './bench.ts'
import { cpuSecondsOf } from './process-usage.ts'

type Measured = { readonly cpuMs: number; readonly p99Ms: number; readonly perSecond: number }
type Subject = { readonly name: string; readonly process: ChildProcess; readonly port: number }

const project = path.join(import.meta.dirname, '..')
const store = path.join(project, 'test/fixtures/torchserve/archives')
const lanes = 8
const body = '{"give":"list"}'
const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length }

const ask = (agent: Agent, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const startMs = performance.now()
    const options = { host: '127.0.0.1', port, path: '/predictions/probe', method: 'POST', agent, headers }
    const call = request(options, (answer) => {
      answer.resume()
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve(performance.now() - startMs)
        else reject(new Error(`the answer is ${answer.statusCode}`))
      })
    })
    call.on('error', reject)
    call.end(body)
  })

async function whenReady(port: number): Promise<void> {
  const agent = new Agent()
  const giveUpMs = performance.now() + 120_000
  for (;;) {
    try {
      await ask(agent, port)
      return
    } catch (reason) {
      if (performance.now() > giveUpMs) throw reason
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
}

async function startTorchserve(bin: string, folder: string): Promise<Subject> {
  const [port, management, metrics, grpc, grpcManagement] = await Promise.all([1, 2, 3, 4, 5].map(() => freePort()))
  const lines = [
    `inference_address=http://127.0.0.1:${port}`,
    `management_address=http://127.0.0.1:${management}`,
    `metrics_address=http://127.0.0.1:${metrics}`,
    `grpc_inference_port=${grpc}`,
    `grpc_management_port=${grpcManagement}`,
    'default_workers_per_model=1',
  ]
  await writeFile(path.join(folder, 'config.properties'), `${lines.join('\n')}\n`)
  const args = ['--start', '--foreground', '--ncs', '--ts-config', 'config.properties', '--model-store', store]
  const started = spawn(
    path.join(bin, 'torchserve'),
    [...args, '--models', 'probe=probe_v2.mar', '--disable-token-auth'],
    {
      cwd: folder,
      stdio: 'ignore',
      detached: true,
      env: { ...process.env, PATH: `${bin}:${process.env['PATH'] ?? ''}` },
    },
  )
  return { name: 'TorchServe', process: started, port: port as number }
}

async function startGalatea(bin: string): Promise<Subject> {
  const port = await freePort()
  const flags = ['--allow-torchserve', '--allow-http=false', '--allow-grpc=false', '--allow-metrics=false']
  const ports = [
    `--torchserve-inference-port=${port}`,
    '--torchserve-management-port=0',
    '--torchserve-metrics-port=0',
    '--torchserve-grpc-inference-port=none',
    '--torchserve-grpc-management-port=none',
  ]
  const models = [`--torchserve-model-store=${store}`, '--torchserve-model=probe=probe_v2.mar']
  const python = `--backend-config=torchserve,interpreter=${path.join(bin, 'python')}`
  const args = [path.join(project, 'bin/galatea.js'), ...flags, ...ports, ...models, python]
  return { name: 'Galatea', process: spawn(process.execPath, args, { stdio: 'ignore', detached: true }), port }
}

async function measure({ process: { pid = 0 }, port }: Subject, seconds: number): Promise<Measured> {
  const agent = new Agent({ keepAlive: true, maxSockets: lanes })
  for (let i = 0; i < 50; i++) await ask(agent, port)
  const times: number[] = []
  const startMs = performance.now()
  const cpu = cpuSecondsOf(pid)
  const lane = async (): Promise<void> => {
    while (performance.now() < startMs + seconds * 1000) times.push(await ask(agent, port))
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  const cpuMs = ((cpuSecondsOf(pid) - cpu) * 1000) / times.length
  const perSecond = (times.length * 1000) / (performance.now() - startMs)
  agent.destroy()
  times.sort((a, b) => a - b)
  return { cpuMs, p99Ms: times[Math.floor(times.length * 0.99)] ?? 0, perSecond }
}

const [bin = '', rounds = '5', seconds = '3'] = process.argv.slice(2)
const folder = await mkdtemp(path.join(tmpdir(), 'galatea-bench-'))
const subjects = [await startTorchserve(path.resolve(bin), folder), await startGalatea(path.resolve(bin))] as const
try {
  for (const { port } of subjects) await whenReady(port)
  const measured = new Map(subjects.map(({ name }) => [name, [] as Measured[]]))
  for (let round = 0; round < Number(rounds); round++) {
    for (const subject of subjects) measured.get(subject.name)?.push(await measure(subject, Number(seconds)))
  }
  const median = (name: string, key: keyof Measured): number =>
    medianOf((measured.get(name) ?? []).map((one) => one[key]))
  for (const key of ['cpuMs', 'p99Ms', 'perSecond'] as const) {
    const [theirs, ours] = [median('TorchServe', key), median('Galatea', key)]
    console.log(
      `${key}: TorchServe ${theirs.toFixed(2)}, Galatea ${ours.toFixed(2)}, ${(ours / theirs).toFixed(2)} of it`,
    )
  }
} finally {
  for (const { process: started } of subjects) {
    if (started.exitCode !== null || started.pid === undefined) continue
    // TorchServe's launcher leaves its Java process behind: the whole group is ended.
    process.kill(-started.pid, 'SIGKILL')
    await once(started, 'exit')
  }
  await rm(folder, { recursive: true, force: true })
}
