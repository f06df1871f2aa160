import { mkdir, open, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { isRunning } from './is-running.ts'
import { isStale, removeLeftLock } from './left-lock.ts'
import { messageOf, ServerError } from './server-error.ts'
import { Turnstile } from './turnstile.ts'

/** How many parts of this process have a folder, by its lock: that belongs to the process, as the number in it does. */
const holders = new Map<string, number>()
/** One part of the process at a time takes a folder or leaves it. */
const turns = new Turnstile(1)

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
    this.#taking ??= turns
      .pass(() => this.#take(innerFolders))
      .catch((reason: unknown) => {
        this.#taking = null
        throw reason
      })
    return this.#taking
  }

  /** Twice is fine. */
  leave(): Promise<void> {
    return turns.pass(() => this.#leave())
  }

  async #leave(): Promise<void> {
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
    if ((await this.#readLock()) === (await ownMark())) await rm(this.#lockFile, { force: true })
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
    await this.#takeLock(await ownMark())
    this.#isTaken = true
    holders.set(this.#lockFile, (holders.get(this.#lockFile) ?? 0) + 1)
  }

  async #takeLock(mark: string): Promise<void> {
    const found = await this.#readLock()
    if (found === mark) return
    const owner = Number(found.split(' ')[0])
    if (owner > 0 && owner !== process.pid && (await isRunningStill(found))) throw this.#isOthers(owner)
    // A server that was killed before it had written its mark left an empty file.
    const isLeft = async (): Promise<boolean> =>
      found === '' ? await isStale(this.#lockFile) : (await this.#readLock()) === found
    if (await isLeft()) await removeLeftLock(this.#lockFile, isLeft)
    const handle = await open(this.#lockFile, 'wx', 0o600).catch(async (reason: unknown) => {
      if ((reason as NodeJS.ErrnoException).code !== 'EEXIST') throw reason
      throw this.#isOthers(Number((await this.#readLock()).split(' ')[0]))
    })
    try {
      await handle.writeFile(mark)
    } catch (reason) {
      // The disk is full. A lock that says nothing would keep everybody out for a while.
      await rm(this.#lockFile, { force: true })
      throw reason
    } finally {
      await handle.close()
    }
  }

  #readLock(): Promise<string> {
    return readFile(this.#lockFile, 'utf8').catch(() => '')
  }

  #isOthers(owner: number): ServerError {
    const whose = owner > 0 ? `the server with the process id ${owner}` : 'a server that takes it at this moment'
    return new ServerError('UNAVAILABLE', `the state folder '${this.#folder}' belongs to ${whose}; give this server another one with --state-dir or another --id`) // prettier-ignore
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
