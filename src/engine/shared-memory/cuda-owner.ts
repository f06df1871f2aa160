// The process that allocated a region of CUDA memory. CUDA does not tell a server that this process has ended.

import { readFile } from 'node:fs/promises'

/** Where CUDA's driver writes the number of the process into its 64 bytes. Read off handles of driver 580; not documented. */
const pidOffset = 8

export type CudaOwner = { readonly pid: number; readonly started: string }

/**
 * The process behind an IPC handle; null where it cannot be told for certain: a process of another container has another number here,
 * so the process of that number must have CUDA loaded.
 */
export async function ownerOf(handle: Uint8Array, folder = '/proc'): Promise<CudaOwner | null> {
  const pid = Buffer.from(handle.buffer, handle.byteOffset, handle.byteLength).readUInt32LE(pidOffset)
  if (pid < 2 || pid === process.pid) return null
  const maps = await readFile(`${folder}/${pid}/maps`, 'latin1').catch(() => '')
  if (!maps.includes('libcuda')) return null
  const started = await startOf(pid, folder)
  return started === null ? null : { pid, started }
}

/** False: the process has ended, also where its number has gone to another process. */
export const isAlive = async ({ pid, started }: CudaOwner, folder = '/proc'): Promise<boolean> =>
  (await startOf(pid, folder)) === started

/** The field `starttime` of the process, or null. The name of a process may have spaces and brackets in it. */
async function startOf(pid: number, folder: string): Promise<string | null> {
  const text = await readFile(`${folder}/${pid}/stat`, 'latin1').catch(() => '')
  const [state = '', ...fields] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return state === '' || state === 'Z' || state === 'X' ? null : (fields[18] ?? null)
}
