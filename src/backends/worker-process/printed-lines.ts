// The lines that a process prints.

import type { Readable } from 'node:stream'

const lineLimit = 16 * 1024

export function readLines(stream: Readable | null, onLine: (line: string) => void): void {
  let rest = ''
  const emit = (line: string): void => {
    if (line !== '') onLine(line)
  }
  stream?.setEncoding('utf8')
  stream?.on('error', () => undefined)
  stream?.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    lines.forEach(emit)
    // A model that never ends its line must not fill the server's memory.
    if (rest.length > lineLimit) {
      emit(rest)
      rest = ''
    }
  })
  stream?.once('close', () => emit(rest))
}
