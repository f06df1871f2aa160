// A language model on the processor, SmolLM2-135M, in turn with llama.cpp's own server (GALATEA_LLAMA_SERVER is its command) on the same
// file and threads; and what a long prompt, a shared beginning and an ONNX model beside it do. Chats are as many as the rows say.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { placeModel, smolFile } from '../test/e2e/language-model.ts'
import { exampleModels, startServerProcess } from '../test/e2e/server-process.ts'
import { until } from '../test/until.ts'
import { alternate, medianOf, medianRatio, type Bench, type BenchSettings, type Figure } from './bench.ts'
import { loadChats, percentile, type ChatLoad, type ChatMeasure } from './chat-load.ts'

const answerTokens = 24
/** GALATEA_LLM_THREADS: on a machine whose cores others use, one thread says more about a program than many that wait. */
const threads = Number(process.env['GALATEA_LLM_THREADS'] ?? availableParallelism())

const words = ['river', 'stone', 'cloud', 'engine', 'music', 'garden', 'winter', 'paper']
const filler = (count: number): string =>
  Array.from({ length: count }, (_, i) => words[(i * 7 + (i >> 3)) % 8]).join(' ')
let serial = 0
const question = (): string => `${++serial}. Write a long story about the number ${serial}.`
const chatsOf = (chats: number, ask: ChatLoad['ask'] = question): ChatLoad => ({ chats, tokens: answerTokens, ask })
const longPrompt = (): string => `${++serial} ${filler(250)} ${question()}`

type Running = AsyncDisposable & { readonly url: string }

async function startLlamaServer(command: string, file: string): Promise<Running> {
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

async function startGalatea(file: string, repository: string, contextLength: number): Promise<Running> {
  const folder = placeModel(file, repository, 'smol')
  const parameters = {
    max_sequences: '16', kv_cells: '16384', n_threads: `${threads}`, context_length: `${contextLength}`,
  } // prettier-ignore
  const lines = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  )
  writeFileSync(path.join(folder, 'config.pbtxt'), ['backend: "llamacpp"', ...lines].join('\n'))
  const server = await startServerProcess([
    `--model-repository=${repository}`,
    `--model-repository=${exampleModels}`,
    '--model-control-mode=explicit',
    '--load-model=smol',
    '--load-model=simple',
  ])
  await until(async () => (await fetch(`${server.url}/v2/models/smol/ready`)).ok, 'the model is in memory')
  return { url: server.url, [Symbol.asyncDispose]: async () => void (await server.stop()) }
}

const rate = ({ tokensPerSecond }: ChatMeasure): number => tokensPerSecond
const itl = ({ nextTokenMs }: ChatMeasure): number => percentile(nextTokenMs, 0.99)
const ttft = ({ firstTokenMs }: ChatMeasure): number => percentile(firstTokenMs, 0.99)

async function besideLlamaServer(ours: string, theirs: string, { rounds, say }: BenchSettings): Promise<Figure[]> {
  const figures: Figure[] = []
  const compare = async (load: ChatLoad): Promise<{ ours: ChatMeasure[]; theirs: ChatMeasure[] }> => {
    return alternate(rounds, { ours: () => loadChats(ours, load), theirs: () => loadChats(theirs, load) })
  }
  const add = (what: string, both: { ours: ChatMeasure[]; theirs: ChatMeasure[] }, of: (one: ChatMeasure) => number, target: Figure['target']): void => {
    const [own, other] = [medianOf(both.ours.map(of)), medianOf(both.theirs.map(of))]
    const detail = `${own.toFixed(1)} against ${other.toFixed(1)} of llama-server`
    figures.push({ what, value: medianRatio(both.ours, both.theirs, of), unit: '×', target, detail })
    say(`${what}: ${detail}`)
  } // prettier-ignore
  for (const [chats, least] of [[1, 0.98], [4, 1], [16, 1.05]] as const) {
    const both = await compare(chatsOf(chats))
    add(`tokens/s of ${chats} chats against llama-server`, both, rate, { kind: 'at least', value: least })
    if (chats === 16) add('p99 between tokens, 16 chats', both, itl, { kind: 'at most', value: 0.8 })
  } // prettier-ignore
  const long = await compare(chatsOf(16, longPrompt))
  add('p99 first token, 16 prompts of about 300 tokens', long, ttft, { kind: 'at most', value: 0.7 })
  return figures
}

async function sharedBeginning(url: string, { rounds, say }: BenchSettings): Promise<Figure> {
  const beginning = filler(450)
  const turns = await alternate(Math.min(rounds, 2), {
    shared: () => loadChats(url, { chats: 16, tokens: 8, ask: () => `${beginning} ${question()}` }),
    own: () => loadChats(url, { chats: 16, tokens: 8, ask: () => `${++serial} ${beginning} ${question()}` }),
  })
  const value = medianRatio(turns.shared, turns.own, rate)
  const detail = `${medianOf(turns.shared.map(rate)).toFixed(1)} against ${medianOf(turns.own.map(rate)).toFixed(1)} tokens/s`
  say(`a shared beginning: ${detail}`)
  const what = 'tokens/s with a shared beginning of 500 tokens, against own ones'
  return { what, value, unit: '×', target: { kind: 'at least', value: 3 }, detail }
}

async function longPromptBeside(url: string, { say }: BenchSettings): Promise<Figure> {
  const chats = { chats: 8, tokens: 64, ask: question }
  const alone = await loadChats(url, chats)
  const [beside] = await Promise.all([
    loadChats(url, chats),
    loadChats(url, { chats: 1, tokens: 2, ask: () => `${++serial} ${filler(3800)}` }),
  ])
  const detail = `${itl(beside).toFixed(1)} ms beside, ${itl(alone).toFixed(1)} ms alone`
  say(`a long prompt: ${detail}`)
  const what = 'p99 between tokens of 8 chats, with a prompt of 4,000 tokens beside'
  return { what, value: itl(beside) / itl(alone), unit: '×', target: { kind: 'at most', value: 1.5 }, detail }
}

const inference = JSON.stringify({
  inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, shape: [1, 16], datatype: 'INT32', data: Array.from({ length: 16 }, (_, i) => i) })),
}) // prettier-ignore

async function inferenceMs(url: string, count: number): Promise<number[]> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const startMs = performance.now()
    const response = await fetch(`${url}/v2/models/simple/infer`, { method: 'POST', body: inference })
    await response.arrayBuffer()
    times.push(performance.now() - startMs)
  }
  return times
}

async function neighbour(url: string, { say }: BenchSettings): Promise<Figure> {
  await inferenceMs(url, 200)
  const alone = percentile(await inferenceMs(url, 500), 0.99)
  const chats = loadChats(url, { chats: 4, tokens: 64, ask: question })
  const beside = percentile(await inferenceMs(url, 500), 0.99)
  await chats
  const detail = `${beside.toFixed(2)} ms beside 4 chats, ${alone.toFixed(2)} ms alone, ${threads} threads on ${threads} cores`
  say(`an ONNX model: ${detail}`)
  // With a core of its own the target is 1.3; here all cores compute tokens.
  return { what: 'p99 of a small ONNX model beside 4 chats', value: beside / alone, unit: '×', target: null, detail }
}

export const bench: Bench = {
  name: 'llm',
  summary: 'a language model beside llama-server, long prompts, shared beginnings, a neighbour',
  async run(given) {
    // Each measurement takes seconds, so a few rounds do.
    const settings = { ...given, rounds: Math.min(given.rounds, 3) }
    const file = await smolFile()
    const repository = mkdtempSync(path.join(tmpdir(), 'galatea-llm-bench-'))
    try {
      const figures: Figure[] = []
      const command = process.env['GALATEA_LLAMA_SERVER'] ?? ''
      if (command === '') settings.say('GALATEA_LLAMA_SERVER names no llama-server: there is nothing to compare with')
      else {
        // llama-server divides its 16,384 cells among 16 chats too.
        await using galatea = await startGalatea(file, repository, 1024)
        await using other = await startLlamaServer(command, file)
        for (const { url } of [galatea, other]) await loadChats(url, chatsOf(2))
        figures.push(...(await besideLlamaServer(galatea.url, other.url, settings)))
      }
      await using galatea = await startGalatea(file, repository, 8192)
      await loadChats(galatea.url, chatsOf(2))
      figures.push(await sharedBeginning(galatea.url, settings))
      figures.push(await longPromptBeside(galatea.url, settings))
      figures.push(await neighbour(galatea.url, settings))
      return figures
    } finally {
      rmSync(repository, { recursive: true })
    }
  },
}
