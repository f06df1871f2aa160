// The entry of the `galatea` command: runs a sub-command and sets the exit code. Only the wanted sub-command is
// imported, so that a server starts quickly.

import { existsSync } from 'node:fs'
import { nearestWord } from '../base/nearest-word.ts'
import { plainGlobals } from '../base/plain-globals.ts'
import { messageOf } from '../base/server-error.ts'
import { switchTelemetryOff } from '../base/telemetry-off.ts'
import type { CommandIo } from './command-io.ts'

type Command = (args: string[], io: CommandIo) => Promise<number>

const commands = new Map<string, () => Promise<Command>>([
  ['serve', async () => (await import('./serve.ts')).runServe],
  ['check', loadCheck],
  ['inspect', async () => (await import('./inspect.ts')).runInspect],
  ['doctor', async () => (await import('./doctor.ts')).runDoctor],
  ['fleet', async () => (await import('./fleet.ts')).runFleet],
  ['fetch', async () => (await import('./fetch.ts')).runFetch],
  ['health', async () => (await import('./health.ts')).runHealth],
  ['init', async () => (await import('./init.ts')).runInit],
  ['new', async () => (await import('./new-project.ts')).runNew],
  ['keys', async () => (await import('./keys.ts')).runKeys],
  ['import', async () => (await import('./import-archive.ts')).runImport],
  ['torchserve', async () => (await import('./torchserve.ts')).runTorchserve],
  ['perf', async () => (await import('./perf.ts')).runPerf],
  ['predict', async () => (await import('./predict.ts')).runPredict],
  ['rollout', async () => (await import('./rollout.ts')).runRollout],
  ['tfserving', async () => (await import('./tfserving.ts')).runTfserving],
  ['work', async () => (await import('./work.ts')).runWork],
  ['tune', async () => (await import('./tune.ts')).runTune],
])

async function loadCheck(): Promise<Command> {
  const [{ runCheck }, { createModelInspector }, { openLoadTrial }] = await Promise.all([
    import('./check.ts'),
    import('../create-model-inspector.ts'),
    import('../load-trial.ts'),
  ])
  return (args, io) => runCheck(args, io, { openInspector: createModelInspector, openTrial: openLoadTrial })
}

/** Resolves with the exit code. */
export async function runCommandLine(args: readonly string[], io: CommandIo): Promise<number> {
  // The commands start Python and servers of their own, which inherit this.
  switchTelemetryOff(process.env)
  const [first, ...rest] = args
  if (first === '--version' || first === 'version') {
    const { packageVersion } = await import('./package-facts.ts')
    io.stdout(`galatea ${packageVersion()} (Node ${process.version})\n`)
    return 0
  }
  const [about] = rest
  if (first === 'help' && about !== undefined) return runNamed(about, ['--help'], io)
  if (first === undefined || first === '--help' || first === '-h' || first === 'help') {
    // No arguments are needed when the environment names the models to serve.
    if (first === undefined && namesRepository(process.env)) return runNamed('serve', [], io)
    const { overview, serveHelp } = await import('./help.ts')
    io.stdout(first === '--help' ? `${overview}\n${serveHelp()}` : overview)
    return first === undefined ? 1 : 0
  }
  if (first.startsWith('-')) return runNamed('serve', [...args], io)
  return runNamed(first, rest, io)
}

const namesRepository = (environment: NodeJS.ProcessEnv): boolean =>
  ['MODEL_REPOSITORY_PATH', 'GALATEA_MODEL_REPOSITORY', 'GALATEA_MODEL_STORE', 'GALATEA_EXAMPLES'].some(
    (name) => (environment[name] ?? '') !== '',
  )

async function runNamed(name: string, args: string[], io: CommandIo): Promise<number> {
  const command = commands.get(name)
  if (command !== undefined) return (await command())(args, io)
  const nearest = nearestWord(name, commands.keys())
  let hint = ''
  if (nearest !== null) hint = `did you mean 'galatea ${nearest}'?\n`
  else if (name.includes('/') || existsSync(name))
    hint = `to serve a folder of models: galatea --model-repository ${name}\n`
  io.stderr(`galatea: there is no command '${name}'\n${hint}Run 'galatea --help' for the commands.\n`)
  return 1
}

/** A link to galatea of this name does what the program of this name does. */
function linkedAs(program: string, args: string[]): string[] {
  const [, name] = /(?:^|[\\/])(tensorflow_model_server|tritonserver)$/.exec(program) ?? []
  if (name === undefined) return args
  return name === 'tritonserver' ? ['serve', '--triton-defaults', ...args] : ['tfserving', ...args]
}

/** bin/galatea.js calls this. */
export async function main(): Promise<void> {
  plainGlobals()
  const io: CommandIo = {
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
  }
  // In `galatea check . | head` the reader ends early, and that is not an error.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
  try {
    const [, program = '', ...args] = process.argv
    process.exitCode = await runCommandLine(linkedAs(program, args), io)
  } catch (reason) {
    io.stderr(`galatea: ${messageOf(reason)}\n`)
    process.exitCode = 1
  }
}
