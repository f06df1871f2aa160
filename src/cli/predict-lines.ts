// Where the answers of `galatea predict` go: a line for each file, as CSV or JSON.

import { createWriteStream } from 'node:fs'
import { once } from 'node:events'
import { finished } from 'node:stream/promises'

type Class = { readonly label?: string; readonly index: number; readonly score: number | string }
export type Prediction = { readonly classes?: readonly Class[]; readonly values?: readonly unknown[] }
export type Outcome = {
  readonly file: string
  readonly latencyMs: number
  /** '' for an answer. */
  readonly error: string
  readonly prediction: Prediction
}

const classText = ({ label, index, score }: Class): string =>
  `${label ?? index} ${typeof score === 'number' ? Number(score.toPrecision(4)) : score}`

export const resultText = ({ classes, values = [] }: Prediction): string =>
  classes?.map(classText).join(', ') ?? values.slice(0, 20).map(String).join(' ')

export type Lines = { readonly file: string; add(outcome: Outcome): void; end(): Promise<void> }

/** Replaces the file. Rejects where it cannot be written; `end` rejects where that fails later. */
async function openFile(file: string, head: string, line: (outcome: Outcome) => string): Promise<Lines> {
  const stream = createWriteStream(file)
  await once(stream, 'open')
  // What fails before the end is told there.
  const whole = finished(stream)
  whole.catch(() => undefined)
  stream.write(head)
  return {
    file,
    add: (outcome) => void stream.write(`${line(outcome)}\n`),
    end: () => {
      stream.end()
      return whole
    },
  }
}

export const openJsonLines = (file: string): Promise<Lines> =>
  openFile(file, '', ({ file: name, latencyMs, error, prediction }) => {
    const { file: _named, ...told } = prediction as Prediction & { file?: string }
    return JSON.stringify({ file: name, latency_ms: round(latencyMs), ...(error === '' ? told : { error }) })
  })

export const openCsv = (file: string): Promise<Lines> =>
  openFile(
    file,
    'file,latency_ms,label,index,score,classes,error\n',
    ({ file: name, latencyMs, error, prediction }) => {
      const best = prediction.classes?.[0]
      const cells = [
        name,
        round(latencyMs),
        best?.label,
        best?.index,
        best?.score,
        error === '' ? resultText(prediction) : '',
      ]
      return [...cells, error].map((cell) => quoted(String(cell ?? ''))).join(',')
    },
  )

const round = (ms: number): number => Math.round(ms * 1000) / 1000
const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
