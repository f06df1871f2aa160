// `galatea perf`: measures a model on a running server. Options, output and exit status are perf_analyzer's.

import { availableParallelism, constants, cpus } from 'node:os'
import { OptionError } from '../perf/option-words.ts'
import { optionGroups, perfOptions, type PerfOptionSpec } from '../perf/option-table.ts'
import { readPerfOptions } from '../perf/perf-options.ts'
import { ProgressLine } from '../perf/progress-line.ts'
import { exitCode, runPerf as run } from '../perf/run-perf.ts'
import { validateOptions } from '../perf/validate-options.ts'
import type { CommandIo } from './command-io.ts'
import { withoutEchoes } from './exit-signals.ts'
import { packageVersion } from './package-facts.ts'
import { keepRequestsYoung } from './tune-collector.ts'

/** Resolves with the exit status. */
export async function runPerf(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    const read = readPerfOptions(args)
    if (read.kind === 'help') {
      io.stdout(perfHelp())
      return exitCode.ok
    }
    if (read.kind === 'version') {
      io.stdout(`galatea perf ${packageVersion()}\n`)
      return exitCode.ok
    }
    validateOptions(read.options, read.words)
    for (const warning of read.warnings) io.stderr(`WARNING: ${warning}\n`)
    keepRequestsYoung()
    const interruption = new Interruption(io)
    try {
      const status = await run(read.options, {
        ...io,
        progress: new ProgressLine(io.stderr, process.stderr.isTTY ? () => process.stderr.columns || 80 : null),
        interrupted: interruption.asked,
        version: packageVersion(),
        command: ['galatea', 'perf', ...args].join(' '),
        machine: machineText(),
      })
      return interruption.isTermination ? terminatedStatus : status
    } finally {
      interruption.end()
    }
  } catch (reason) {
    if (!(reason instanceof OptionError)) throw reason
    io.stderr(`Error: ${reason.message}\nRun 'galatea perf --help' for its options.\n`)
    return exitCode.option
  }
}

/** The machine that sends the requests; often it is the server's too. */
const machineText = (): string => `${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? 'unknown CPU'})`

/** The exit status that a shell shows for SIGTERM. */
const terminatedStatus = 128 + constants.signals.SIGTERM

/** The first signal ends the current window, the second ends the process. */
class Interruption {
  readonly asked: Promise<void>
  readonly #listener: (signal: NodeJS.Signals) => void
  #isTermination = false

  constructor({ stdout }: CommandIo) {
    let tell: () => void = () => undefined
    this.asked = new Promise((resolve) => (tell = resolve))
    let isAsked = false
    this.#listener = withoutEchoes((signal: NodeJS.Signals) => {
      stdout(`Interrupt signal (${constants.signals[signal]}) received.\n`)
      if (signal === 'SIGTERM') this.#isTermination = true
      if (isAsked) {
        stdout('Exiting immediately...\n')
        process.exit(this.#isTermination ? terminatedStatus : exitCode.ok)
      }
      isAsked = true
      stdout('Waiting for in-flight inferences to complete.\n')
      tell()
    })
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, this.#listener)
  }

  /** True for SIGTERM: the exit status tells it. */
  get isTermination(): boolean {
    return this.#isTermination
  }

  end(): void {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, this.#listener)
  }
}

const column = 40
const width = 110

export function perfHelp(): string {
  const lines = [
    'Usage: galatea perf -m MODEL [options]',
    '',
    'Sends requests to a running server (Galatea or Triton) and says how many it answered, how fast, and where the time',
    "went. Options, output and exit status are those of NVIDIA's perf_analyzer.",
    '',
    '  galatea perf -m simple --concurrency-range 1:16:4',
    '  galatea perf -m simple -i grpc --request-rate-range 1000 --request-distribution poisson --report report.html',
  ]
  for (const group of optionGroups) {
    lines.push('', `${group}:`, ...perfOptions.filter((option) => option.group === group).flatMap(optionLines))
  }
  lines.push('', 'Exit status: 0; 2 no stable measurement; 3 a mistake in the options; 99 anything else.')
  return `${lines.join('\n')}\n`
}

function optionLines({ name, short, value, help, default: fallback }: PerfOptionSpec): string[] {
  const head = `  ${short === '' ? '    ' : `-${short}, `}--${name}${value === '' ? '' : ` ${value}`}`
  const text = fallback === '' ? help : `${help} (default ${fallback})`
  const body = wrap(text)
  if (head.length + 2 > column) return [head, ...body]
  return [head.padEnd(column) + (body[0] ?? '').slice(column), ...body.slice(1)]
}

function wrap(text: string): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && column + line.length + 1 + word.length > width) {
      lines.push(' '.repeat(column) + line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, ' '.repeat(column) + line]
}
