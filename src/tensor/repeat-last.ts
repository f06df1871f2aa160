/** Bytes that are filled in one step: about a millisecond. */
const stepBytes = 4 * 1024 * 1024

/** Repeats the last `width` bytes before `from` to the end, in steps. Each doubles what is there. */
export function* repeatLast(bytes: Buffer, from: number, width: number): Generator<void, void> {
  const start = from - width
  for (let length = width; start + length < bytes.length;) {
    const more = Math.min(length, bytes.length - start - length, stepBytes)
    bytes.copyWithin(start + length, start, start + more)
    length += more
    if (more === stepBytes) yield
  }
}
