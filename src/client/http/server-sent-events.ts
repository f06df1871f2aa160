// text/event-stream → the data of each event.

const longestEventChars = 64 * 1024 * 1024

/** The `data:` of each event, its lines joined. Ends with the stream; an event that was cut off is dropped. */
export async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  // Not `for await`: some browsers cannot iterate a stream.
  const reader = body.getReader()
  // The pieces of a line that has not ended: looked at once, however many there are.
  let pieces: string[] = []
  let lines: string[] = []
  /** Of these pieces and lines. */
  let chars = 0
  let end = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      const text = end + (done ? decoder.decode() : decoder.decode(value, { stream: true }))
      // A \r at the very end may be half of \r\n.
      end = text.endsWith('\r') && !done ? '\r' : ''
      const [first = '', ...rest] = text.slice(0, text.length - end.length).split(/\r\n|\n|\r/)
      pieces.push(first)
      chars += first.length
      for (const next of rest) {
        const line = pieces.length === 1 ? (pieces[0] as string) : pieces.join('')
        pieces = [next]
        chars += next.length
        if (line.startsWith('data:')) lines.push(line.slice(line[5] === ' ' ? 6 : 5))
        else if (line === '' && lines.length > 0) {
          yield lines.join('\n')
          lines = []
          chars = next.length
        } else chars -= line.length
      }
      if (chars > longestEventChars) throw new Error(`an event is longer than ${longestEventChars} characters`)
      if (done) return
    }
  } finally {
    // Ends the request when the caller stops early; a stream that has ended does not mind.
    await reader.cancel().catch(() => null)
  }
}
