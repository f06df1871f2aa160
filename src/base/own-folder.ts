// Folders for files that are there as long as the server needs them. A server that is killed leaves them, and the next one removes them.

import { createHash } from 'node:crypto'
import { lstat, mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import path from 'node:path'
import { isRunning } from './is-running.ts'
import type { Log } from './log.ts'
import { messageOf } from './server-error.ts'

/** Models that came over the network, weights in another form. */
type Purpose = 'upload' | 'weights'

/** Makes a folder that only this user can read. Who makes it removes it. */
export const newOwnFolder = async (purpose: Purpose): Promise<string> =>
  mkdtemp(path.join(tmpdir(), await ownFolderPrefix(purpose)))

/** Begins the name of each folder of this process. A number of a process means something only where the process runs. */
export const ownFolderPrefix = async (purpose: Purpose, pid = process.pid): Promise<string> =>
  `galatea-${purpose}-${await machineMark()}-${pid}-`

/** The machine and, in containers, the set of processes that the numbers are counted in. */
async function machineMark(): Promise<string> {
  const processes = await readlink('/proc/self/ns/pid').catch(() => '')
  return createHash('sha256').update(`${hostname()}\n${processes}`).digest('hex').slice(0, 8)
}

/** Removes folders of this user that processes of this machine have left and that have ended. Never rejects. */
export async function removeLeftFolders(log: Log, directory: string): Promise<void> {
  const pattern = new RegExp(`^galatea-(?:upload|weights)-${await machineMark()}-(\\d+)-`)
  const names = await readdir(directory).catch(() => [])
  for (const name of names) {
    const pid = Number(pattern.exec(name)?.[1] ?? 0)
    if (pid === 0 || isRunning(pid)) continue
    const folder = path.join(directory, name)
    try {
      const entry = await lstat(folder)
      if (!entry.isDirectory() || entry.uid !== (process.getuid?.() ?? entry.uid)) continue
      await rm(folder, { recursive: true, force: true })
      log.info('removed files that a server left behind when it was killed', { folder })
    } catch (reason) {
      log.warning('cannot remove files that a server left behind', { folder, reason: messageOf(reason) })
    }
  }
}
