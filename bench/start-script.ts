import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { onCore } from './pinning.ts'

/** A server in a script of this folder, on the first core. The last thing in the first line that the script writes is its port. */
export async function startScript(
  script: string,
  ...args: readonly string[]
): Promise<AsyncDisposable & { readonly pid: number; readonly port: number }> {
  const [command = '', ...rest] = [...onCore(0), process.execPath, path.join(import.meta.dirname, script), ...args]
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const stop = async (): Promise<void> => {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
    process.off('exit', killAtExit)
  }
  return { pid: child.pid ?? 0, port: Number(/:(\d+)\s*$/.exec(line.toString())?.[1]), [Symbol.asyncDispose]: stop }
}
