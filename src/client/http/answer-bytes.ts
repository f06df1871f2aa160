// The body of an answer, up to a length: a server that never ends one must not take all memory of its client.

type Answer = {
  readonly bytes: Uint8Array
  /** False: the answer goes on, and the rest of it was given up. */
  readonly isWhole: boolean
}

export async function answerBytes(response: Response, mostBytes: number): Promise<Answer> {
  const length = response.headers.get('content-length')
  const isPacked = (response.headers.get('content-encoding') ?? 'identity') !== 'identity'
  // fetch holds an answer to the length that it says.
  if (length !== null && !isPacked && Number(length) <= mostBytes) {
    return { bytes: new Uint8Array(await response.arrayBuffer()), isWhole: true }
  }
  if (response.body === null) return { bytes: new Uint8Array(), isWhole: true }
  const pieces: Uint8Array[] = []
  let size = 0
  // Not `for await`: some browsers cannot iterate a stream.
  const reader = response.body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return { bytes: joined(pieces, size), isWhole: true }
    pieces.push(value)
    size += value.length
    if (size <= mostBytes) continue
    await reader.cancel().catch(() => null)
    return { bytes: joined(pieces, size).subarray(0, mostBytes), isWhole: false }
  }
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}
