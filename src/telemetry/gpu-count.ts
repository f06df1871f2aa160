import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

/** A driver that does not answer must not keep the server from starting. */
const timeoutMs = 10_000
const mebibyte = 1024 * 1024

/**
 * NVIDIA GPUs that models can be placed on, numbered from 0 as CUDA numbers them. Where nvidia-smi is not on the PATH, as in
 * a small container, the driver's device files tell; finding out that there is none starts no process.
 */
export function findGpus(environment: NodeJS.ProcessEnv, leastCapability = 0, deviceFolder = '/dev'): number {
  const visible = environment['CUDA_VISIBLE_DEVICES']
  if (visible !== undefined && visibleCount(visible) === 0) return 0
  const folders = (environment['PATH'] ?? '').split(path.delimiter)
  const program = folders.map((folder) => path.join(folder, 'nvidia-smi')).find((file) => existsSync(file))
  const count = program === undefined ? deviceFiles(deviceFolder) : askedGpus(program, leastCapability)
  return visible === undefined ? count : Math.min(count, visibleCount(visible))
}

function askedGpus(program: string, leastCapability: number): number {
  const question = ['--query-gpu=compute_cap', '--format=csv,noheader']
  const { stdout } = spawnSync(program, question, { encoding: 'utf8', timeout: timeoutMs })
  return capableGpus(stdout ?? '', leastCapability)
}

/** /dev/nvidia0, /dev/nvidia1, … */
const deviceFiles = (folder: string): number =>
  existsSync(folder) ? readdirSync(folder).filter((name) => /^nvidia\d+$/.test(name)).length : 0

/**
 * One line per GPU, such as `9.0`. GPUs are numbered without gaps, so those behind one that is too old are not used either.
 * A driver that does not know the figure prints another word: the GPU is used then.
 */
export function capableGpus(text: string, least: number): number {
  const lines = text.split('\n').filter((line) => /^(\d+(\.\d+)?|\[.*\])\s*$/.test(line))
  const tooOld = lines.findIndex((line) => Number(line) < least)
  return tooOld < 0 ? lines.length : tooOld
}

/** CUDA reads the list up to the first entry that is no device. */
export function visibleCount(list: string): number {
  const entries = list.split(',').map((entry) => entry.trim())
  const end = entries.findIndex((entry) => !/^(\d+|GPU-.+|MIG-.+)$/.test(entry))
  return end < 0 ? entries.length : end
}

/** The used share of a GPU's memory, from 0 to 1; null where nvidia-smi does not tell. */
export async function usedGpuShare(deviceId: number, program = 'nvidia-smi'): Promise<number | null> {
  const memory = await gpuMemory(deviceId, program)
  return memory === null ? null : memory.usedBytes / memory.totalBytes
}

/** What no program has taken; null as above. */
export async function freeGpuBytes(deviceId: number, program = 'nvidia-smi'): Promise<number | null> {
  const memory = await gpuMemory(deviceId, program)
  return memory === null ? null : memory.totalBytes - memory.usedBytes
}

async function gpuMemory(
  deviceId: number,
  program: string,
): Promise<{ readonly usedBytes: number; readonly totalBytes: number } | null> {
  const question = ['--query-gpu=memory.used,memory.total', '--format=csv,noheader,nounits', `--id=${deviceId}`]
  const answer = await promisify(execFile)(program, question, { timeout: timeoutMs }).catch(() => null)
  const [used = NaN, total = NaN] = (answer?.stdout ?? '').split(',').map(Number)
  return total > 0 && used >= 0 ? { usedBytes: used * mebibyte, totalBytes: total * mebibyte } : null
}
