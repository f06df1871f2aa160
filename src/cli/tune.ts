// `galatea tune`: finds batch size, delay and instances for a model by measuring.

import { OptionError } from '../perf/option-words.ts'
import { runTune as run } from '../tune/run-tune.ts'
import { readTuneOptions, tuneHelp } from '../tune/tune-options.ts'
import type { CommandIo } from './main.ts'
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
    const onSignal = (): void => {
      io.stderr('\nInterrupted: ending the measurement under way.\n')
      interrupt()
    }
    process.once('SIGINT', onSignal)
    try {
      return await run(options, {
        ...io,
        progress: process.stderr.isTTY ? (text) => io.stderr(`\r\x1b[2K${text}`) : null,
        interrupted,
        version: packageVersion(),
        command: ['galatea', 'tune', ...args].join(' '),
        launcher: process.argv[1] ?? '',
      })
    } finally {
      process.off('SIGINT', onSignal)
    }
  } catch (reason) {
    if (!(reason instanceof OptionError)) throw reason
    io.stderr(`Error: ${reason.message}\nRun 'galatea tune --help' for its options.\n`)
    return optionMistake
  }
}
