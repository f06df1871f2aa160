/** A line longer than this is cut into several, so that code that never ends its line does not fill the memory. */
const maxLineLength = 8192

/** Turns chunks of text into lines. */
export function lineSplitter(onLine: (line: string) => void): { push(text: string): void; end(): void } {
  let rest = ''
  return {
    push(text) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) onLine(line)
      while (rest.length > maxLineLength) {
        onLine(rest.slice(0, maxLineLength))
        rest = rest.slice(maxLineLength)
      }
    },
    end() {
      if (rest !== '') onLine(rest)
      rest = ''
    },
  }
}
