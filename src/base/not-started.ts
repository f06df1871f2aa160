import { statSync } from 'node:fs'
import path from 'node:path'

/** Why a program could not be started. A virtual environment is often named where its Python is meant. */
export function notStarted(program: string, reason: string): string {
  if (statSync(program, { throwIfNoEntry: false })?.isDirectory() !== true) {
    return `'${program}' cannot be started (${reason})`
  }
  return `'${program}' cannot be started: it is a folder; name the program in it, as ${path.join(program, 'bin', 'python')}`
}
