import { spawn, type SpawnOptions } from 'node:child_process'

type ProgramEnd = {
  readonly code: number | null
  /** Null where the program has ended by itself. */
  readonly signal: string | null
  /** The end of what the program wrote. */
  readonly stdout: string
  readonly stderr: string
}

/** Resolves when the program has ended, with at most so many characters of each output. Rejects when it cannot be started. */
export function runProgram(
  program: string,
  args: readonly string[],
  mostCharacters: number,
  options: SpawnOptions = {},
): Promise<ProgramEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    const written = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        written[name] = (written[name] + text).slice(-mostCharacters)
      })
    }
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...written }))
  })
}
