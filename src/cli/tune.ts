// `galatea tune`: measures a model to find its batch size, delay and number of instances.

import { shellWord } from '../base/shell-quoted.ts'
import { OptionError } from '../perf/option-words.ts'
import { runTune as run } from '../tune/run-tune.ts'
import { readTuneOptions, tuneHelp } from '../tune/tune-options.ts'
import type { CommandIo } from './command-io.ts'
import { withoutEchoes } from './exit-signals.ts'
import { packageVersion } from './package-facts.ts'

const optionMistake = 3

/** Resolves with the exit status. */
export async function runTune(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    const options = readTuneOptions(args)
    if (options === 'help') {
      io.stdout(tuneHelp)
      return 0
    }
    const { promise: interrupted, resolve: interrupt } = Promise.withResolvers<void>()
    let isInterrupted = false
    const onSignal = withoutEchoes((): void => {
      // The second signal ends the process at once, and the server that it started ends too.
      if (isInterrupted) process.exit(1)
      isInterrupted = true
      io.stderr('\nInterrupted: ending the measurement under way. Once more ends it at once and restores nothing.\n')
      interrupt()
    })
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
    for (const signal of signals) process.on(signal, onSignal)
    try {
      return await run(options, {
        ...io,
        progress: process.stderr.isTTY ? (text) => io.stderr(`\r\x1b[2K${fitted(text)}`) : null,
        interrupted,
        version: packageVersion(),
        command: commandText(args),
        resumeCommand: commandText(options.isResumed ? args : ['--resume', ...args]),
        launcher: process.argv[1] ?? '',
      })
    } finally {
      for (const signal of signals) process.off(signal, onSignal)
    }
  } catch (reason) {
    if (!(reason instanceof OptionError)) throw reason
    io.stderr(`Error: ${reason.message}\nRun 'galatea tune --help' for its options.\n`)
    return optionMistake
  }
}

/** Cuts a line to the width of the terminal, because a line that wraps cannot be rewritten. */
const fitted = (text: string): string => text.slice(0, Math.max(20, (process.stderr.columns || 80) - 1))

/** The command as text for a shell. */
const commandText = (args: readonly string[]): string => ['galatea', 'tune', ...args.map(shellWord)].join(' ')
