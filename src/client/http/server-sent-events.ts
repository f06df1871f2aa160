// text/event-stream → the data of each event.

const longestEventChars = 64 * 1024 * 1024

/** The `data:` of each event, its lines joined. Ends with the stream; an event that was cut off is dropped. */
export async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  // Not `for await`: some browsers cannot iterate a stream.
  const reader = body.getReader()
  let pending = ''
  let lines: string[] = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      pending += done ? decoder.decode() : decoder.decode(value, { stream: true })
      if (pending.length > longestEventChars) throw new Error(`an event is longer than ${longestEventChars} characters`)
      // A \r at the very end may be half of \r\n.
      const complete = pending.endsWith('\r') && !done ? pending.slice(0, -1) : pending
      const parts = complete.split(/\r\n|\n|\r/)
      pending = (parts.pop() ?? '') + pending.slice(complete.length)
      for (const line of parts) {
        if (line.startsWith('data:')) lines.push(line.slice(line[5] === ' ' ? 6 : 5))
        else if (line === '' && lines.length > 0) {
          yield lines.join('\n')
          lines = []
        }
      }
      if (done) return
    }
  } finally {
    // Ends the request when the caller stops early; a stream that has ended does not mind.
    await reader.cancel().catch(() => null)
  }
}
