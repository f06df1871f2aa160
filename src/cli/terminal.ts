// A person at a terminal: short coloured lines, and one status line below them that changes in place.

import type { LogEntry, LogLevel } from '../base/log.ts'
import { encodeFields } from './log-line.ts'
import type { TextSink } from './text-sink.ts'
import { printable } from './printable.ts'

type Colour = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'blue'

/** Text in a colour, or as it is where there are none. */
export type Paint = (colour: Colour, text: string) => string

const codes: Readonly<Record<Colour, string>> = {
  bold: '1',
  dim: '2',
  red: '31',
  green: '32',
  yellow: '33',
  blue: '34',
}

export const plainPaint: Paint = (_colour, text) => text
const colourPaint: Paint = (colour, text) => `\u001B[${codes[colour]}m${text}\u001B[0m`

/** `NO_COLOR` is the convention of no-color.org. */
export const paintFor = (environment: NodeJS.ProcessEnv): Paint =>
  (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb' ? plainPaint : colourPaint

const levelColours: Readonly<Record<LogLevel, Colour>> = {
  error: 'red',
  warning: 'yellow',
  info: 'dim',
  verbose: 'dim',
}
const clearLine = '\r\u001B[K'

export class Terminal implements TextSink {
  readonly paint: Paint
  readonly #sink: TextSink
  readonly #columns: () => number
  #status = ''
  /** True while the status line says what the lines of level INFO would say. */
  isStarting = true

  constructor(sink: TextSink, paint: Paint, columns: () => number) {
    this.#sink = sink
    this.paint = paint
    this.#columns = columns
  }

  /** Some terminals say 0 before they know their size. */
  get columns(): number {
    return Math.max(40, this.#columns() || 80)
  }

  /** '' takes the status line away. A longer text is cut, because a line that wraps cannot be taken back. */
  set status(text: string) {
    const cut = printable(text)
      .replaceAll('\n', ' ')
      .slice(0, this.columns - 1)
    if (cut === this.#status) return
    this.#status = cut
    this.#sink.write(clearLine + cut)
  }

  write(text: string): void {
    this.#sink.write(this.#status === '' ? text : `${clearLine}${text}${this.#status}`)
  }

  writeEntry({ level, message, fields }: LogEntry, wallUs: number): void {
    if (this.isStarting && (level === 'info' || level === 'verbose')) return
    const at = new Date(wallUs / 1000)
    const time = [at.getHours(), at.getMinutes(), at.getSeconds()]
      .map((part) => String(part).padStart(2, '0'))
      .join(':')
    const word = level === 'error' || level === 'warning' ? `${this.paint(levelColours[level], level)} ` : ''
    this.write(
      `${this.paint('dim', time)} ${word}${printable(message)}${this.paint('dim', printable(encodeFields(fields)))}\n`,
    )
  }

  flush(): Promise<void> {
    return this.#sink.flush()
  }

  flushNow(): void {
    this.#sink.flushNow()
  }

  close(): Promise<void> {
    return this.#sink.close()
  }
}
