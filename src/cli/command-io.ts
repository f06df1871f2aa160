/** Where a sub-command writes. */
export type CommandIo = {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
}
