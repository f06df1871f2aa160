// What the commands have in common that take the command line of another server.

import { messageOf } from '../base/server-error.ts'
import type { CommandIo } from './command-io.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** A command line of `galatea serve`, and what of the other one has no effect. */
export type Translated = { readonly args: string[]; readonly warnings: readonly string[] }

/** The value of another server's flag as that of one or more of our own. */
export const flagTo =
  (...flags: string[]) =>
  (value: string): string[] =>
    flags.map((flag) => `--${flag}=${value}`)

/** Resolves with the exit code. `help` follows an error. */
export async function serveTranslated(
  command: string,
  io: CommandIo,
  translate: () => Translated | Promise<Translated>,
  help = '',
): Promise<number> {
  let translated: Translated
  try {
    translated = await translate()
  } catch (reason) {
    io.stderr(`galatea ${command}: ${messageOf(reason)}\n${help}`)
    return 1
  }
  for (const warning of translated.warnings) io.stderr(`galatea ${command}: ${warning}\n`)
  const { runServe } = await import('./serve.ts')
  return runServe(translated.args, io)
}
