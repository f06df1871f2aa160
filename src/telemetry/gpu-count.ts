import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'

/** A driver that does not answer must not keep the server from starting. */
const timeoutMs = 10_000

/**
 * NVIDIA GPUs that models can be placed on, numbered from 0 as CUDA numbers them. Where nvidia-smi is not on the PATH, as in
 * a small container, the driver's device files tell; finding out that there is none starts no process.
 */
export function countGpus(environment: NodeJS.ProcessEnv, deviceFolder = '/dev'): number {
  const visible = environment['CUDA_VISIBLE_DEVICES']
  if (visible !== undefined && visibleCount(visible) === 0) return 0
  const folders = (environment['PATH'] ?? '').split(path.delimiter)
  const program = folders.map((folder) => path.join(folder, 'nvidia-smi')).find((file) => existsSync(file))
  const count = program === undefined ? deviceFiles(deviceFolder) : askedGpus(program)
  return visible === undefined ? count : Math.min(count, visibleCount(visible))
}

function askedGpus(program: string): number {
  const { stdout } = spawnSync(program, ['-L'], { encoding: 'utf8', timeout: timeoutMs })
  return listedGpus(stdout ?? '')
}

/** /dev/nvidia0, /dev/nvidia1, … */
const deviceFiles = (folder: string): number =>
  existsSync(folder) ? readdirSync(folder).filter((name) => /^nvidia\d+$/.test(name)).length : 0

/** `nvidia-smi -L` has one line per GPU; the slices of a divided one are indented below it. */
export const listedGpus = (text: string): number => text.match(/^GPU \d+:/gm)?.length ?? 0

/** CUDA reads the list up to the first entry that is no device. */
export function visibleCount(list: string): number {
  const entries = list.split(',').map((entry) => entry.trim())
  const end = entries.findIndex((entry) => !/^(\d+|GPU-.+|MIG-.+)$/.test(entry))
  return end < 0 ? entries.length : end
}
