// A language model on the processor, SmolLM2-135M, in turn with llama.cpp's own server (GALATEA_LLAMA_SERVER is its command) on the same
// file and threads: with the weights as they are in the file, and with weights of 8 and of 16 bits that Galatea makes of them.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { smolFile } from '../test/e2e/language-model.ts'
import { alternate, medianOf, medianRatio, type Bench, type BenchSettings, type Figure } from './bench.ts'
import { loadChats, type ChatLoad, type ChatMeasure } from './chat-load.ts'
import { chatsOf, itl, longPrompt, rate, startGalatea, startLlamaServer, ttft } from './language-servers.ts'

const forms = [
  ['file', 'weights of the file'],
  ['q8_0', 'weights of 8 bits'],
  ['bf16', 'weights of 16 bits'],
] as const

/** `form` is said with each figure. */
async function besideLlamaServer(
  ours: string,
  theirs: string,
  form: string,
  { rounds, say }: BenchSettings,
): Promise<Figure[]> {
  const figures: Figure[] = []
  const compare = async (load: ChatLoad): Promise<{ ours: ChatMeasure[]; theirs: ChatMeasure[] }> => {
    return alternate(rounds, { ours: () => loadChats(ours, load), theirs: () => loadChats(theirs, load) })
  }
  const add = (what: string, both: { ours: ChatMeasure[]; theirs: ChatMeasure[] }, of: (one: ChatMeasure) => number, target: Figure['target']): void => {
    const [own, other] = [medianOf(both.ours.map(of)), medianOf(both.theirs.map(of))]
    const detail = `${own.toFixed(1)} against ${other.toFixed(1)} of llama-server, ${form}`
    figures.push({ what: `${what}, ${form}`, value: medianRatio(both.ours, both.theirs, of), unit: '×', target, detail })
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

/** What is compiled at the first requests is not measured. */
async function warmUp(url: string): Promise<void> {
  for (let round = 0; round < 3; round++) await loadChats(url, chatsOf(16))
}

export const bench: Bench = {
  name: 'llm',
  summary: 'a language model beside llama-server',
  async run(given) {
    // Each measurement takes seconds, so a few rounds do.
    const settings = { ...given, rounds: Math.min(given.rounds, 5) }
    const command = process.env['GALATEA_LLAMA_SERVER'] ?? ''
    if (command === '') {
      settings.say('GALATEA_LLAMA_SERVER names no llama-server: there is nothing to compare with')
      return []
    }
    const file = await smolFile()
    const repository = mkdtempSync(path.join(tmpdir(), 'galatea-llm-bench-'))
    try {
      const figures: Figure[] = []
      await using other = await startLlamaServer(command, file)
      await warmUp(other.url)
      for (const [weights, form] of forms) {
        // llama-server divides its 16,384 cells among 16 chats too.
        await using galatea = await startGalatea(file, repository, { contextLength: 1024, weights })
        await warmUp(galatea.url)
        figures.push(...(await besideLlamaServer(galatea.url, other.url, form, settings)))
      }
      return figures
    } finally {
      rmSync(repository, { recursive: true })
    }
  },
}
