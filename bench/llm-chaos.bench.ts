// A thousand requests to a language model: some leave before the answer, some in the middle of it, some come when the queue is full,
// and twice the process of the model is killed. Every request ends, no answer is another one's, and the memory is free afterwards.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { placeModel, smolFile } from '../test/e2e/language-model.ts'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { until } from '../test/until.ts'
import type { Bench, Figure } from './bench.ts'

/** GALATEA_CHAOS: fewer, to see that it runs. */
const requests = Number(process.env['GALATEA_CHAOS'] ?? 1000)
const cells = 512
/** More than run and wait, so that some are refused. */
const atOnce = 200

type Outcome = 'right' | 'wrong' | 'left' | 'refused' | 'lost with its process' | 'other'

/** The grammar allows one text only, another one for each request: an answer of somebody else is seen at once. */
async function ask(url: string, number: number): Promise<Outcome> {
  const expected = `n${number * 7919}`
  const controller = new AbortController()
  const leaves = number % 4 === 1
  if (leaves) void pause((number * 37) % 400).then(() => controller.abort())
  const sampling = JSON.stringify({ temperature: 0, max_tokens: 12, grammar: `root ::= "${expected}"` })
  const isStreamed = number % 3 === 0
  const body = {
    text_input: `Say number ${number % 50}:`, sampling_parameters: sampling, stream: isStreamed, exclude_input_in_output: true,
  } // prettier-ignore
  try {
    const response = await fetch(`${url}/v2/models/smol/${isStreamed ? 'generate_stream' : 'generate'}`, {
      method: 'POST',
      body: JSON.stringify(body),
      signal: controller.signal,
    })
    const text = await response.text()
    if (response.status === 503 && !/SIGKILL|ended|failed/.test(text)) return 'refused'
    if (response.status >= 500) return 'lost with its process'
    if (response.status !== 200) return 'other'
    const events = isStreamed ? text.split('\n\n').flatMap((event) => (event === '' ? [] : [event.slice('data: '.length)])) : [text] // prettier-ignore
    const pieces = events.map((event) => JSON.parse(event) as { text_output?: string; error?: string })
    if (pieces.some(({ error }) => error !== undefined)) return 'lost with its process'
    return pieces.map(({ text_output }) => text_output ?? '').join('') === expected ? 'right' : 'wrong'
  } catch (reason) {
    if (leaves) return 'left'
    throw reason
  }
}

function killEngine({ pid }: ServerProcess): void {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter((child) => child !== '')
  for (const child of children) {
    if (readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('engine-program'))
      process.kill(Number(child), 'SIGKILL')
  }
}

async function metric(server: ServerProcess, name: string): Promise<number> {
  const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  const lines = page.split('\n').filter((line) => line.startsWith(`${name}{`))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

async function allEnd(server: ServerProcess): Promise<Map<Outcome, number>> {
  const outcomes = new Map<Outcome, number>()
  const count = (outcome: Outcome): void => void outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  let next = 0
  const client = async (): Promise<void> => {
    while (next < requests) {
      const number = next++
      if (number === Math.floor(requests * 0.3) || number === Math.floor(requests * 0.7)) killEngine(server)
      let outcome = await ask(server.url, number)
      // Who was refused comes back a little later.
      for (; outcome === 'refused'; outcome = await ask(server.url, number)) {
        count(outcome)
        await pause(300)
      }
      count(outcome)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, requests) }, client))
  return outcomes
}

export const bench: Bench = {
  name: 'llm-chaos',
  summary: 'a language model under cancels, disconnects, overload and kills: nothing is wrong, lost or kept',
  async run({ say }) {
    const repository = mkdtempSync(path.join(tmpdir(), 'galatea-llm-chaos-'))
    try {
      const folder = placeModel(await smolFile(), repository, 'smol')
      const parameters = { max_sequences: '8', kv_cells: `${cells}`, context_length: '256' }
      const lines = Object.entries(parameters).map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`) // prettier-ignore
      writeFileSync(path.join(folder, 'config.pbtxt'), ['backend: "llamacpp"', ...lines].join('\n'))
      await using server = await startServerProcess([`--model-repository=${repository}`])
      await until(async () => (await fetch(`${server.url}/v2/models/smol/ready`)).ok, 'the model is in memory')
      const outcomes = await allEnd(server)
      await until(async () => (await fetch(`${server.url}/v2/models/smol/ready`)).ok, 'the model is back')
      await until(async () => (await metric(server, 'galatea_llm_running_requests')) === 0, 'none runs')
      await until(async () => (await metric(server, 'galatea_llm_waiting_requests')) === 0, 'none waits')
      // Two prompts that fill the memory together: a cell that somebody kept would be missing.
      const fill = JSON.stringify({ text_input: 'word '.repeat(250), sampling_parameters: '{"max_tokens": 1}' })
      const filled = await Promise.all([1, 2].map(async () => (await fetch(`${server.url}/v2/models/smol/generate`, { method: 'POST', body: fill })).status)) // prettier-ignore
      const used = await metric(server, 'galatea_llm_kv_cells_used')
      const counted = [...outcomes].map(([outcome, count]) => `${count} ${outcome}`).join(', ')
      say(`${requests} requests: ${counted}; ${used} of ${cells} cells hold tokens, two full prompts gave ${filled.join(' and ')}`) // prettier-ignore
      const sum = [...outcomes].reduce((all, [outcome, count]) => (outcome === 'refused' ? all : all + count), 0)
      const bad = (outcomes.get('wrong') ?? 0) + (outcomes.get('other') ?? 0)
      const figure = (what: string, value: number): Figure => ({ what, value, unit: '', target: { kind: 'at most', value: 0 }, detail: counted }) // prettier-ignore
      return [
        figure('wrong answers of 1,000 requests with cancels, disconnects and kills', bad),
        figure('requests that did not end', requests - sum),
        figure('prompts that found no memory afterwards', filled.filter((status) => status !== 200).length),
      ]
    } finally {
      rmSync(repository, { recursive: true })
    }
  },
}
