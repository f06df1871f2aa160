// Takes the chunks out of a chunked body. Pieces are views on what arrived; nothing is copied here.

import { isTrailerLine } from './request-head.ts'

/** The most bytes of a chunk's size line with its extension, and of all trailers. Honest clients send less. */
const mostLineBytes = 1024
const mostTrailerBytes = 16 * 1024
/** 4 GiB: far above every limit on bodies, and safe to count with. */
const mostSizeDigits = 8

// No blanks, no control characters, no open quotes: existing programs read such lines in different ways.
const sizeLine =
  /^([0-9A-Fa-f]+)(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?)*$/

type State = 'size' | 'data' | 'data-end' | 'trailers' | 'complete' | 'broken'

export class ChunkedDecoder {
  #state: State = 'size'
  /** The part of a line that has come so far. */
  #line = ''
  #leftBytes = 0
  #trailerBytes = 0

  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  get isBroken(): boolean {
    return this.#state === 'broken'
  }

  /** Hands every piece of the body to `take` and returns where it stopped: behind the body, or at the end of `data`. */
  decode(data: Buffer, at: number, take: (piece: Buffer) => void): number {
    let position = at
    while (position < data.length && this.#state !== 'complete' && this.#state !== 'broken') {
      if (this.#state === 'data') {
        const end = Math.min(data.length, position + this.#leftBytes)
        take(data.subarray(position, end))
        this.#leftBytes -= end - position
        position = end
        if (this.#leftBytes === 0) this.#state = 'data-end'
      } else position = this.#takeLine(data, position)
    }
    return position
  }

  /** Reads up to the end of a line, or what there is of it. */
  #takeLine(data: Buffer, at: number): number {
    const newLine = data.indexOf(0x0a, at)
    const end = newLine < 0 ? data.length : newLine + 1
    if (end - at + this.#line.length > mostLineBytes) {
      this.#state = 'broken'
      return at
    }
    this.#line += data.toString('latin1', at, end)
    if (newLine >= 0) {
      const line = this.#line
      this.#line = ''
      this.#state = line.endsWith('\r\n') ? this.#afterLine(line.slice(0, -2)) : 'broken'
    }
    return end
  }

  #afterLine(line: string): State {
    switch (this.#state) {
      case 'size': {
        const digits = sizeLine.exec(line)?.[1] ?? ''
        if (digits === '' || digits.replace(/^0+/, '').length > mostSizeDigits) return 'broken'
        this.#leftBytes = Number.parseInt(digits, 16)
        return this.#leftBytes === 0 ? 'trailers' : 'data'
      }
      case 'data-end':
        return line === '' ? 'size' : 'broken'
      case 'trailers':
        this.#trailerBytes += line.length
        if (this.#trailerBytes > mostTrailerBytes) return 'broken'
        if (line === '') return 'complete'
        return isTrailerLine(line) ? 'trailers' : 'broken'
      case 'data':
      case 'complete':
      case 'broken':
      default:
        return 'broken'
    }
  }
}
