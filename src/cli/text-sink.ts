export interface TextSink {
  write(text: string): void
  flush(): Promise<void>
  flushNow(): void
  close(): Promise<void>
  /** Opens a new file of the same name. */
  reopen?(): void
}
