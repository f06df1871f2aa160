// The Python that end-to-end tests talk to the server with: a virtual environment in .cache/python, made once for each
// content of test/requirements.txt.

import { createHash } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { runQuietly } from './run-quietly.ts'

export type PythonEnvironment = { readonly python: string } | { readonly missingBecause: string }

export async function preparePython(root: string): Promise<PythonEnvironment> {
  const requirements = path.join(root, 'test', 'requirements.txt')
  const folder = path.join(root, '.cache', 'python')
  const python = path.join(folder, 'bin', 'python')
  const wanted = createHash('sha256').update(readFileSync(requirements)).digest('hex')
  const isCurrent = (): boolean => existsSync(python) && stampOf(folder) === wanted
  if (isCurrent()) return { python }
  // Made aside and moved into place when it is whole: two test runs at a time must not tread on each other.
  const draft = `${folder}-${process.pid}`
  try {
    const made = await runQuietly('python3', ['-m', 'venv', draft])
    if (made !== null) {
      return { missingBecause: `python3 -m venv failed (python3 with its venv module is needed): ${made}` }
    }
    const pip = ['-m', 'pip', 'install', '--quiet', '-r', requirements]
    const installed = await runQuietly(path.join(draft, 'bin', 'python'), pip)
    if (installed !== null) return { missingBecause: `pip install -r test/requirements.txt failed: ${installed}` }
    writeFileSync(path.join(draft, stampName), wanted)
    if (!isCurrent()) {
      rmSync(folder, { recursive: true, force: true })
      renameSync(draft, folder)
    }
    return { python }
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

const stampName = 'requirements.sha256'

function stampOf(folder: string): string {
  const stamp = path.join(folder, stampName)
  return existsSync(stamp) ? readFileSync(stamp, 'utf8') : ''
}
