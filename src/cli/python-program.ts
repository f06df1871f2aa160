// Runs a Python of the user's: for programs that make models, and to see which packages it has.

import { notStarted } from '../base/not-started.ts'
import { runProgram } from '../base/run-program.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { printable } from './printable.ts'

/** The end of what a program wrote is enough to see what went wrong. */
const maxOutputLength = 4000

/** Resolves with what the program printed. Rejects with the end of its errors. */
export async function runPython(python: string, args: readonly string[], folder?: string): Promise<string> {
  const options = folder === undefined ? {} : { cwd: folder }
  const { code, stdout, stderr } = await runProgram(python, args, maxOutputLength, options).catch((reason: unknown) => {
    const message = `${notStarted(python, messageOf(reason))}; install Python 3, or name one with --python`
    throw new ServerError('UNAVAILABLE', message)
  })
  if (code === 0) return stdout
  throw new ServerError('INTERNAL', `'${python}' ended with exit code ${code}: ${printable(stderr.trim())}`)
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
