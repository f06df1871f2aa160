import { spawn } from 'node:child_process'
import path from 'node:path'
import { ServerError } from '../../base/server-error.ts'

const mostErrorText = 2000

/** Installs the packages that an archive asks for into its own folder, where only its handler sees them. */
export function installRequirements(python: string, folder: string, file: string, limitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = ['-m', 'pip', 'install', '--no-input', '--upgrade', '--target', folder, '-r', path.join(folder, file)]
    const child = spawn(python, args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: limitMs, killSignal: 'SIGKILL' })
    let text = ''
    child.stderr.on('data', (chunk: Buffer) => (text = (text + chunk.toString()).slice(-mostErrorText)))
    const failed = (reason: string): void =>
      reject(ServerError.withoutStack('INVALID_ARG', `Custom pip package installation failed for ${file}: ${reason}`))
    child.on('error', (error) => failed(error.message))
    child.on('close', (code, signal) => {
      if (code === 0) resolve()
      else failed(signal === null ? text.trim() : `it took longer than ${limitMs / 1000} s`)
    })
  })
}
