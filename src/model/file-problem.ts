/** Something in a file that keeps a model from loading. */
export type FileProblem = {
  readonly file: string
  readonly line: number | null
  readonly column: number | null
  readonly message: string
  /** What to do; '' when the message says it all. */
  readonly fix: string
}
