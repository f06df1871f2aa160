// A language model on the processor, SmolLM2-135M: what a shared beginning, a long prompt and an ONNX model beside it do.

import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { smolFile } from '../test/e2e/language-model.ts'
import { alternate, medianOf, medianRatio, type Bench, type BenchSettings, type Figure } from './bench.ts'
import { loadChats, percentile } from './chat-load.ts'
import { chatsOf, filler, itl, nextSerial, question, rate, startGalatea } from './language-servers.ts'

async function sharedBeginning(url: string, { rounds, say }: BenchSettings): Promise<Figure> {
  const beginning = filler(450)
  const turns = await alternate(Math.min(rounds, 2), {
    shared: () => loadChats(url, { chats: 16, tokens: 8, ask: () => `${beginning} ${question()}` }),
    own: () => loadChats(url, { chats: 16, tokens: 8, ask: () => `${nextSerial()} ${beginning} ${question()}` }),
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
    loadChats(url, { chats: 1, tokens: 2, ask: () => `${nextSerial()} ${filler(3800)}` }),
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

/** `hasCore`: the language model leaves a core to the ONNX model, the server and the clients. */
async function neighbour(url: string, hasCore: boolean, { rounds, say }: BenchSettings): Promise<Figure> {
  await inferenceMs(url, 200)
  const aloneMs = (): Promise<number[]> => inferenceMs(url, 500)
  const besideMs = async (): Promise<number[]> => {
    const times: number[] = []
    const stop = new AbortController()
    const chats = loadChats(url, { chats: 4, tokens: 64, ask: question }).finally(() => stop.abort())
    while (!stop.signal.aborted) times.push(...(await inferenceMs(url, 1)))
    await chats
    return times
  }
  const p99 = (times: readonly number[]): number => percentile(times, 0.99)
  const turns = await alternate(rounds, { alone: aloneMs, beside: besideMs })
  const [alone, beside] = [medianOf(turns.alone.map(p99)), medianOf(turns.beside.map(p99))]
  const where = hasCore ? 'on other cores' : 'on the same cores'
  const detail = `${beside.toFixed(2)} ms beside 4 chats, ${alone.toFixed(2)} ms alone`
  say(`an ONNX model ${where}: ${detail}`)
  const target: Figure['target'] = hasCore ? { kind: 'at most', value: 1.3 } : null
  return { what: `p99 of a small ONNX model beside 4 chats ${where}`, value: beside / alone, unit: '×', target, detail }
}

export const bench: Bench = {
  name: 'llm-beside',
  summary: 'a language model with shared beginnings, a long prompt, and an ONNX model beside it',
  async run(given) {
    const settings = { ...given, rounds: Math.min(given.rounds, 5) }
    const file = await smolFile()
    const repository = mkdtempSync(path.join(tmpdir(), 'galatea-llm-bench-'))
    try {
      const figures: Figure[] = []
      if (availableParallelism() > 1) {
        await using galatea = await startGalatea(file, repository, { contextLength: 8192, leavesCore: true })
        await loadChats(galatea.url, chatsOf(2))
        figures.push(await neighbour(galatea.url, true, settings))
      }
      await using galatea = await startGalatea(file, repository, { contextLength: 8192 })
      await loadChats(galatea.url, chatsOf(2))
      figures.push(await neighbour(galatea.url, false, settings))
      figures.push(await longPromptBeside(galatea.url, settings))
      figures.push(await sharedBeginning(galatea.url, settings))
      return figures
    } finally {
      rmSync(repository, { recursive: true })
    }
  },
}
