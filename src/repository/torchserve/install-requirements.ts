import path from 'node:path'
import { runProgram } from '../../base/run-program.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'

const mostErrorText = 2000

/** Installs the packages that an archive asks for into its own folder, where only its handler sees them. */
export async function installRequirements(
  python: string,
  folder: string,
  file: string,
  limitMs: number,
): Promise<void> {
  const failed = (reason: string): ServerError =>
    ServerError.withoutStack('INVALID_ARG', `Custom pip package installation failed for ${file}: ${reason}`)
  const args = ['-m', 'pip', 'install', '--no-input', '--upgrade', '--target', folder, '-r', path.join(folder, file)]
  const running = runProgram(python, args, mostErrorText, { timeout: limitMs, killSignal: 'SIGKILL' })
  const { code, signal, stderr } = await running.catch((reason: unknown) => Promise.reject(failed(messageOf(reason))))
  if (code !== 0) throw failed(signal === null ? stderr.trim() : `it took longer than ${limitMs / 1000} s`)
}
