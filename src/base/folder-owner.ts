import { mkdir, open, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { isRunning } from './is-running.ts'
import { messageOf, ServerError } from './server-error.ts'

/** How many parts of this process have a folder, by its lock: that belongs to the process, as the number in it does. */
const holders = new Map<string, number>()

/**
 * A folder that one process at a time may write: two would overwrite each other's files. It is taken with the first write, so that a server that keeps
 * nothing makes no folder. A process that was killed owns nothing any more.
 */
export class FolderOwner {
  readonly #folder: string
  #taking: Promise<void> | null = null
  #isTaken = false

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Makes the folders, too. Throws UNAVAILABLE when another process has the folder. */
  take(innerFolders: readonly string[]): Promise<void> {
    this.#taking ??= this.#take(innerFolders).catch((reason: unknown) => {
      this.#taking = null
      throw reason
    })
    return this.#taking
  }

  /** Twice is fine. */
  async leave(): Promise<void> {
    if (!this.#isTaken) return
    this.#isTaken = false
    this.#taking = null
    const others = (holders.get(this.#lockFile) ?? 1) - 1
    if (others > 0) {
      holders.set(this.#lockFile, others)
      return
    }
    holders.delete(this.#lockFile)
    // Another process may have taken what was left too long.
    const mark = await readFile(this.#lockFile, 'utf8').catch(() => '')
    if (mark === (await ownMark())) await rm(this.#lockFile, { force: true })
  }

  get #lockFile(): string {
    return path.join(this.#folder, 'server.pid')
  }

  async #take(innerFolders: readonly string[]): Promise<void> {
    try {
      for (const inner of innerFolders) await mkdir(path.join(this.#folder, inner), { recursive: true, mode: 0o700 })
    } catch (reason) {
      throw new ServerError('UNAVAILABLE', `the state folder '${this.#folder}' cannot be made: ${messageOf(reason)}; give another one with --state-dir`) // prettier-ignore
    }
    const mark = await readFile(this.#lockFile, 'utf8').catch(() => '')
    const owner = Number(mark.split(' ')[0])
    if (owner > 0 && owner !== process.pid && (await isRunningStill(mark))) {
      throw new ServerError('UNAVAILABLE', `the state folder '${this.#folder}' belongs to the server with the process id ${owner}; give this server another one with --state-dir or another --id`) // prettier-ignore
    }
    const handle = await open(this.#lockFile, 'w', 0o600)
    await handle.writeFile(await ownMark())
    await handle.close()
    this.#isTaken = true
    holders.set(this.#lockFile, (holders.get(this.#lockFile) ?? 0) + 1)
  }
}

/** For a lock: which process has it. */
export const ownMark = async (): Promise<string> => `${process.pid} ${await startOf(process.pid)}`

/** The number of a process that was killed may be another one's by now, as it soon is in a container. */
export async function isRunningStill(mark: string): Promise<boolean> {
  const [pid = '', started = ''] = mark.split(' ')
  return isRunning(Number(pid)) && (started === '' || started === (await startOf(Number(pid))))
}

/** When a process began, in ticks since the system did; '' where the system does not say. */
async function startOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
}
