// SmolLM2-135M on the processor, served by Galatea and by llama.cpp's own server, and what is asked of it in benchmarks.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { placeModel } from '../test/e2e/language-model.ts'
import { exampleModels, startServerProcess } from '../test/e2e/server-process.ts'
import { until } from '../test/until.ts'
import { percentile, type ChatLoad, type ChatMeasure } from './chat-load.ts'

const answerTokens = 24
/** GALATEA_LLM_THREADS: on a machine whose cores others use, one thread says more about a program than many that wait. */
const threads = Number(process.env['GALATEA_LLM_THREADS'] ?? availableParallelism())

const words = ['river', 'stone', 'cloud', 'engine', 'music', 'garden', 'winter', 'paper']
export const filler = (count: number): string =>
  Array.from({ length: count }, (_, i) => words[(i * 7 + (i >> 3)) % 8]).join(' ')
let serial = 0
/** No prompt of a run is asked twice. */
export const nextSerial = (): number => ++serial
export const question = (): string => `${++serial}. Write a long story about the number ${serial}.`
export const chatsOf = (chats: number, ask: ChatLoad['ask'] = question): ChatLoad => ({
  chats,
  tokens: answerTokens,
  ask,
})
export const longPrompt = (): string => `${++serial} ${filler(250)} ${question()}`

type Running = AsyncDisposable & { readonly url: string }

export async function startLlamaServer(command: string, file: string): Promise<Running> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  const settings = [
    '-m',
    file,
    '--port',
    `${port}`,
    '-np',
    '16',
    '-c',
    '16384',
    '-t',
    `${threads}`,
    '-tb',
    `${threads}`,
  ]
  const [program = '', ...first] = command.split(' ')
  const child = spawn(program, [...first, ...settings], { stdio: 'ignore' })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  const url = `http://127.0.0.1:${port}`
  const isReady = (): Promise<boolean> => fetch(`${url}/health`).then(({ ok }) => ok, () => false) // prettier-ignore
  await until(isReady, 'llama-server is ready')
  const stop = async (): Promise<void> => {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
    process.off('exit', killAtExit)
  }
  return { url, [Symbol.asyncDispose]: stop }
}

type Form = {
  readonly contextLength: number
  readonly weights?: 'file' | 'q8_0' | 'bf16'
  readonly leavesCore?: boolean
}

/** `leavesCore`: the language model computes on all cores but the first one, with a thread for each. */
export async function startGalatea(file: string, repository: string, form: Form): Promise<Running> {
  const { contextLength, weights = 'file', leavesCore = false } = form
  const folder = placeModel(file, repository, 'smol')
  const parameters = {
    max_sequences: '16', kv_cells: '16384', n_threads: `${leavesCore ? availableParallelism() - 1 : threads}`, context_length: `${contextLength}`, weights,
  } // prettier-ignore
  const lines = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  )
  const group = !leavesCore ? [] : ['instance_group { kind: KIND_CPU host_policy: "language" }']
  writeFileSync(path.join(folder, 'config.pbtxt'), ['backend: "llamacpp"', ...lines, ...group].join('\n'))
  const server = await startServerProcess([
    ...(leavesCore ? [`--host-policy=language,cpu-cores=1-${availableParallelism() - 1}`] : []),
    `--model-repository=${repository}`,
    `--model-repository=${exampleModels}`,
    '--model-control-mode=explicit',
    '--load-model=smol',
    '--load-model=simple',
  ])
  await until(async () => (await fetch(`${server.url}/v2/models/smol/ready`)).ok, 'the model is in memory')
  return { url: server.url, [Symbol.asyncDispose]: async () => void (await server.stop()) }
}

export const rate = ({ tokensPerSecond }: ChatMeasure): number => tokensPerSecond
export const itl = ({ nextTokenMs }: ChatMeasure): number => percentile(nextTokenMs, 0.99)
export const ttft = ({ firstTokenMs }: ChatMeasure): number => percentile(firstTokenMs, 0.99)
