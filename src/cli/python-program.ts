// Runs a Python of the user's: for programs that make models, and to see which packages it has.

import { spawn } from 'node:child_process'
import { messageOf, ServerError } from '../base/server-error.ts'
import { printable } from './printable.ts'

/** The end of what a program wrote is enough to see what went wrong. */
const maxOutputLength = 4000

/** Resolves with what the program printed. Rejects with the end of its errors. */
export function runPython(python: string, args: readonly string[], folder?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    const tail = (text: string): string => text.slice(-maxOutputLength)
    child.stdout.setEncoding('utf8').on('data', (text: string) => void (stdout = tail(stdout + text)))
    child.stderr.setEncoding('utf8').on('data', (text: string) => void (stderr = tail(stderr + text)))
    child.once('error', (reason) => {
      const message = `'${python}' cannot be started (${messageOf(reason)}); install Python 3, or name one with --python`
      reject(new ServerError('UNAVAILABLE', message))
    })
    child.once('close', (code) => {
      if (code === 0) resolve(stdout)
      else reject(new ServerError('INTERNAL', `'${python}' ended with exit code ${code}: ${printable(stderr.trim())}`))
    })
  })
}

const finder = 'import importlib.util, sys\nprint(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])'

/** The command that installs the packages that this Python does not have; null when it has all of them. */
export async function missingPackages(
  python: string,
  packages: Readonly<Record<string, string>>,
): Promise<{ readonly names: readonly string[]; readonly command: string } | null> {
  const modules = Object.keys(packages)
  if (modules.length === 0) return null
  const missing = (await runPython(python, ['-c', finder, ...modules])).trim().split(/\s+/).filter(Boolean)
  if (missing.length === 0) return null
  const names = missing.map((module) => packages[module] ?? module)
  return { names, command: `${python} -m pip install ${names.join(' ')}` }
}
