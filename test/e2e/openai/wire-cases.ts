// Asks a server what another one was asked, and compares the forms of the answers.

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { projectRoot } from '../server-process.ts'
import { formOf, missingInAnswer, type Form, type RecordedAnswer } from './wire-form.ts'

type Case = {
  readonly name: string
  readonly path: string
  readonly method?: string
  readonly body?: { readonly model?: unknown }
  readonly raw?: string
}

export type Replay = {
  /** The folder below test/fixtures/openai with cases.json and recorded.json. */
  readonly folder: string
  /** The names that the models of the recorded server have in ours. */
  readonly models?: Readonly<Record<string, string>>
  /** Members that need not be there. */
  readonly apart: (name: string) => ReadonlySet<string>
  /** Cases that are answered otherwise on purpose, and why. */
  readonly differs: Readonly<Record<string, string>>
}

/** So many calls are under way at once. */
const lanes = 4

/** How many answers have the recorded form, and what is missing in the others. */
export async function replay(
  url: string,
  { folder, models = {}, apart, differs }: Replay,
): Promise<{ same: number; wrong: string[] }> {
  const read = (file: string): unknown =>
    JSON.parse(readFileSync(path.join(projectRoot, 'test/fixtures/openai', folder, file), 'utf8'))
  const cases = read('cases.json') as readonly Case[]
  const { answers } = read('recorded.json') as { readonly answers: Readonly<Record<string, RecordedAnswer>> }
  const unknown = Object.keys(differs).filter((name) => answers[name] === undefined)
  const wrong = unknown.map((name) => `${name}: there is no such case`)
  const waiting = cases.filter(({ name }) => answers[name] !== undefined && !(name in differs)).values()
  let same = 0
  const work = async (): Promise<void> => {
    for (const one of waiting) {
      const missing = missingInAnswer(
        await answerTo(url, renamed(one, models)),
        answers[one.name] as RecordedAnswer,
        apart(one.name),
      )
      if (missing === '') same++
      else wrong.push(`${one.name}: ${missing}`)
    }
  }
  await Promise.all(Array.from({ length: lanes }, work))
  return { same, wrong: wrong.sort() }
}

function renamed(one: Case, models: Readonly<Record<string, string>>): Case {
  const { path: target, body, raw } = one
  const model = body?.model
  const own = typeof model === 'string' ? models[model] : undefined
  const paths = Object.entries(models).reduce((text, [from, to]) => text.replace(`/models/${from}`, `/models/${to}`), target) // prettier-ignore
  const texts = Object.entries(models).reduce<string | undefined>((text, [from, to]) => text?.replace(`"model":"${from}"`, `"model":"${to}"`), raw) // prettier-ignore
  return {
    ...one,
    path: paths,
    ...(texts === undefined ? {} : { raw: texts }),
    ...(own === undefined ? {} : { body: { ...body, model: own } }),
  }
}

async function answerTo(url: string, { path: target, method = 'POST', body, raw }: Case): Promise<RecordedAnswer> {
  const sent = raw ?? (body === undefined ? null : JSON.stringify(body))
  const answer = await fetch(url + target, { method, ...(method === 'GET' ? {} : { body: sent }) })
  const type = (answer.headers.get('content-type') ?? '').split(';')[0] ?? ''
  const text = await answer.text()
  if (type !== 'text/event-stream')
    return { status: answer.status, type, form: formOf(text === '' ? null : JSON.parse(text)) }
  const events = text.trim().split('\n\n').map(eventForm)
  return { status: answer.status, type, events }
}

function eventForm(event: string): Form {
  const data = event
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => line.slice('data: '.length))
    .join('\n')
  return data === '[DONE]' ? '[DONE]' : formOf(JSON.parse(data))
}
