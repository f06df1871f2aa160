/** Where the memory of a request is counted that its client did not send as it is: inputs in shared memory, decoded texts. */
export type HeldMemory = {
  /** False: there is no room. */
  reserve(bytes: number): boolean
  release(bytes: number): void
  /** Says why. */
  refuse(bytes: number): string
  /** Nobody looks at this body any more: its memory is for the next one. */
  reuse(body: Buffer): void
}
