// The bodies that `galatea perf --service-kind openai` sends: those of a file, or one that is made up.

import { readFileSync } from 'node:fs'
import { messageOf } from '../../base/server-error.ts'
import { InputDataError } from '../input-step.ts'
import type { PerfOptions } from '../perf-options.ts'

type OpenAiBody = Readonly<Record<string, unknown>>

/** Words that a prompt is made of where the user gives none. */
const words = 'the quick brown fox jumps over a lazy dog while rain falls on the old stone bridge'.split(' ')

/** At least one. Throws InputDataError. */
export function openAiBodies(options: PerfOptions): OpenAiBody[] {
  const { input, model, parameters, isStreaming, endpoint } = options
  const shared = {
    model,
    ...parameters,
    ...(isStreaming ? { stream: true, stream_options: { include_usage: true } } : {}),
  }
  const given = input.paths.flatMap(bodiesOf)
  if (given.length > 0) return given.map((body) => ({ ...shared, ...body, ...(isStreaming ? { stream: true } : {}) }))
  return [{ ...shared, ...promptOf(endpoint, input.stringData ?? madeUp(input.stringLength)) }]
}

/** The form of perf_analyzer, `{"data": [{"payload": [{…}]}]}`, or one JSON body in each line. */
function bodiesOf(file: string): OpenAiBody[] {
  const text = readFileSync(file, 'utf8')
  try {
    const whole = text.trimStart().startsWith('{"data"') || /^\{\s*"data"/.test(text.trimStart())
    if (!whole) return text.split('\n').filter((line) => line.trim() !== '').map((line) => JSON.parse(line) as OpenAiBody) // prettier-ignore
    const { data } = JSON.parse(text) as { readonly data: readonly { readonly payload?: OpenAiBody[] }[] }
    return data.flatMap(({ payload = [] }) => payload)
  } catch (reason) {
    throw new InputDataError(
      `${file}: expected {"data": [{"payload": [{…}]}]}, or a JSON body in each line: ${messageOf(reason)}`,
    )
  }
}

function promptOf(endpoint: string, text: string): OpenAiBody {
  if (endpoint.endsWith('chat/completions')) return { messages: [{ role: 'user', content: text }] }
  if (endpoint.endsWith('completions')) return { prompt: text }
  return { input: text }
}

function madeUp(length: number): string {
  let text = ''
  for (let at = 0; text.length < length; at++) text += `${words[at % words.length]} `
  return text.slice(0, length)
}
