/** For our own mistakes only: a failed assertion is a bug in Galatea and should end the work loudly. */
export function assert(condition: unknown, claim: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${claim}`)
}
