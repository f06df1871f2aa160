// `galatea health`: asks a server how it is. For health checks of containers, which have no curl.

import { messageOf } from '../base/server-error.ts'
import { startHint } from '../base/start-hint.ts'
import { askedOf } from './asked-of.ts'
import type { CommandIo } from './command-io.ts'

const usage = `Usage: galatea health [--live] [--url http://127.0.0.1:8000] [--timeout 5]

Asks a running server whether it is ready, and prints why it is not. Made for HEALTHCHECK of containers.

  --live          ask whether the server is alive, not whether it is ready
  --url URL       the server; without it 127.0.0.1 and the port of GALATEA_HTTP_PORT, else 8000
  --timeout SECS  how long to wait for the answer (default 5)
  --help

Exit status: 0 for yes, 1 for no, 2 for a mistake on the command line.
`

type Question = { readonly isLive: boolean; readonly url: string; readonly timeoutSecs: number }

export async function runHealth(args: string[], io: CommandIo, environment = process.env): Promise<number> {
  const question = askedOf('health', usage, args, io, (words) => readQuestion(words, environment))
  if (typeof question === 'number') return question
  const { isLive, url, timeoutSecs } = question
  const state = isLive ? 'live' : 'ready'
  try {
    const signal = AbortSignal.timeout(timeoutSecs * 1000)
    const answer = await fetch(new URL(`/v2/health/${state}`, url), { signal, redirect: 'error' })
    const body = (await answer.text()).slice(0, 1000)
    if (answer.status === 200) {
      io.stdout(`${state}\n`)
      return 0
    }
    io.stderr(`not ${state}: ${url} answered ${answer.status}${body === '' ? '' : ` ${body}`}\n`)
  } catch (reason) {
    const cause = reason instanceof Error && reason.cause instanceof Error ? `: ${reason.cause.message}` : ''
    io.stderr(`not ${state}: ${url} did not answer (${messageOf(reason)}${cause})${startHint(cause, '--url')}\n`)
  }
  return 1
}

function readQuestion(args: readonly string[], environment: NodeJS.ProcessEnv): Question | string {
  let isLive = false
  let url = `http://127.0.0.1:${environment['GALATEA_HTTP_PORT'] ?? '8000'}`
  let timeoutSecs = 5
  const rest = args.flatMap((word) => (/^--(?:url|timeout)=/.test(word) ? splitOnce(word) : [word]))
  for (let index = 0; index < rest.length; index++) {
    const word = rest[index] as string
    if (word === '--live') isLive = true
    else if (word === '--url') url = rest[++index] ?? ''
    else if (word === '--timeout') timeoutSecs = Number(rest[++index])
    else return `'${word}' is not an option`
  }
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) return `--url: expected http://HOST:PORT, got '${url}'`
  if (!(timeoutSecs > 0 && timeoutSecs <= 600)) return '--timeout: expected seconds from 0.001 to 600'
  return { isLive, url, timeoutSecs }
}

const splitOnce = (word: string): string[] => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]
