// Folders of uploaded models that a server could not remove, because it was killed.

import { createHash } from 'node:crypto'
import { lstat, readdir, readlink, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'

const prefix = 'galatea-upload-'

/** Begins the name of each folder of this process. A number of a process means something only where the process runs. */
export const uploadPrefix = async (pid = process.pid): Promise<string> => `${prefix}${await machineMark()}-${pid}-`

/** The machine and, in containers, the set of processes that the numbers are counted in. */
async function machineMark(): Promise<string> {
  const processes = await readlink('/proc/self/ns/pid').catch(() => '')
  return createHash('sha256').update(`${hostname()}\n${processes}`).digest('hex').slice(0, 8)
}

/** Removes folders of this user that processes of this machine have left and that have ended. Never rejects. */
export async function removeStaleUploads(log: Log, directory: string): Promise<void> {
  const pattern = new RegExp(`^${prefix}${await machineMark()}-(\\d+)-`)
  const names = await readdir(directory).catch(() => [])
  for (const name of names) {
    const pid = Number(pattern.exec(name)?.[1] ?? 0)
    if (pid === 0 || isAlive(pid)) continue
    const folder = path.join(directory, name)
    try {
      const entry = await lstat(folder)
      if (!entry.isDirectory() || entry.uid !== (process.getuid?.() ?? entry.uid)) continue
      await rm(folder, { recursive: true, force: true })
      log.info('removed the files of an uploaded model that a server left behind', { folder })
    } catch (reason) {
      log.warning('cannot remove the files of an uploaded model', { folder, reason: messageOf(reason) })
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (reason) {
    // A process of somebody else may not be asked, but it is there.
    return (reason as NodeJS.ErrnoException).code === 'EPERM'
  }
}
