// Any OpenAI servers that run already, in turn: `npx node bench/chat-servers.ts <chats at once> <rounds> <name>=<url>[#<model>] …`. The name of the
// model is `smol` unless it is given. Prints the median of tokens per second and of the first token, and the p99 between tokens.

import { setTimeout as pause } from 'node:timers/promises'
import { alternate, medianOf } from './bench.ts'
import { loadChats, percentile, type ChatMeasure } from './chat-load.ts'

const answerTokens = 24
const [chats, rounds] = process.argv.slice(2, 4).map(Number) as [number, number]
const servers = process.argv.slice(4).map((each) => {
  const [name = '', address = ''] = each.split(/=(.*)/s)
  const [url = '', model = 'smol'] = address.split('#')
  return { name, url, model }
})

let serial = 0
const ask = (): string => `${++serial}. Write a long story about the number ${serial}.`

/** A server may go on for a moment after its last answer: the next one begins behind that. */
const betweenMs = 2000

const measure = (tokens: number, times: number): Promise<Record<string, ChatMeasure[]>> => {
  const load = { chats, tokens, ask, ignoresEnd: false }
  const ofServer = async (url: string, model: string): Promise<ChatMeasure> => {
    await pause(betweenMs)
    return loadChats(url, { ...load, model })
  }
  return alternate(times, Object.fromEntries(servers.map(({ name, url, model }) => [name, () => ofServer(url, model)])))
}

// What is compiled or put into memory at the first request of a size does not count.
await measure(4, 1)
for (const [name, all] of Object.entries(await measure(answerTokens, rounds))) {
  const median = (of: (one: ChatMeasure) => number): string => medianOf(all.map(of)).toFixed(1)
  const between = (share: number): string => median(({ nextTokenMs }) => percentile(nextTokenMs, share))
  console.log(
    `${chats} at once, ${name}: ${median((one) => one.tokensPerSecond)} tokens/s, first token p50 ${median((one) => percentile(one.firstTokenMs, 0.5))} ms, ` +
      `between tokens p50 ${between(0.5)} p99 ${between(0.99)} ms, ${median(({ nextTokenMs }) => nextTokenMs.length / chats + 1)} pieces of each answer`,
  )
}
