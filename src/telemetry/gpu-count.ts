import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { visibleEntries, visibleGpus, type ListedGpu } from './visible-gpus.ts'

/** A driver that does not answer must not keep the server from starting. */
const timeoutMs = 10_000
const mebibyte = 1024 * 1024

/**
 * NVIDIA GPUs that models can be placed on, numbered from 0 as CUDA numbers them. Where nvidia-smi is not on the PATH, as in
 * a small container, the driver's device files tell; finding out that there is none starts no process.
 */
export function findGpus(environment: NodeJS.ProcessEnv, leastCapability = 0, deviceFolder = '/dev'): number {
  const visible = environment['CUDA_VISIBLE_DEVICES']
  if (visible !== undefined && visibleEntries(visible).length === 0) return 0
  const folders = (environment['PATH'] ?? '').split(path.delimiter)
  const program = folders.map((folder) => path.join(folder, 'nvidia-smi')).find((file) => existsSync(file))
  if (program !== undefined) return askedGpus(program, leastCapability, visible)
  const count = deviceFiles(deviceFolder)
  return visible === undefined ? count : Math.min(count, visibleEntries(visible).length)
}

function askedGpus(program: string, leastCapability: number, visible: string | undefined): number {
  const question = ['--query-gpu=index,uuid,compute_cap', '--format=csv,noheader']
  const { stdout } = spawnSync(program, question, { encoding: 'utf8', timeout: timeoutMs })
  return capableGpus(stdout ?? '', leastCapability, visible)
}

type Row = ListedGpu & { readonly cells: readonly string[] }

/** The lines of an answer that begin with `index,uuid`. */
function rowsOf(text: string): Row[] {
  return text.split('\n').flatMap((line) => {
    const [index = '', uuid = '', ...cells] = line.split(',').map((cell) => cell.trim())
    return /^\d+$/.test(index) && uuid !== '' ? [{ index: Number(index), uuid, cells }] : []
  })
}

/** /dev/nvidia0, /dev/nvidia1, … */
const deviceFiles = (folder: string): number =>
  existsSync(folder) ? readdirSync(folder).filter((name) => /^nvidia\d+$/.test(name)).length : 0

/**
 * One line per GPU, such as `0, GPU-1, 9.0`. GPUs are numbered without gaps, so those behind one that is too old are not used either.
 * A driver that does not know the figure prints another word: the GPU is used then.
 */
export function capableGpus(text: string, least: number, visible?: string): number {
  const gpus = visibleGpus(rowsOf(text), visible)
  const tooOld = gpus.findIndex((gpu) => Number(gpu?.cells[0]) < least)
  return tooOld < 0 ? gpus.length : tooOld
}

type Asked = { readonly program?: string; readonly environment?: NodeJS.ProcessEnv }

/** The used share of a GPU's memory, from 0 to 1; null where nvidia-smi does not tell. */
export async function usedGpuShare(deviceId: number, asked: Asked = {}): Promise<number | null> {
  const memory = await gpuMemory(deviceId, asked)
  return memory === null ? null : memory.usedBytes / memory.totalBytes
}

/** What no program has taken; null as above. */
export async function freeGpuBytes(deviceId: number, asked: Asked = {}): Promise<number | null> {
  const memory = await gpuMemory(deviceId, asked)
  return memory === null ? null : memory.totalBytes - memory.usedBytes
}

async function gpuMemory(
  deviceId: number,
  { program = 'nvidia-smi', environment = process.env }: Asked,
): Promise<{ readonly usedBytes: number; readonly totalBytes: number } | null> {
  const question = ['--query-gpu=index,uuid,memory.used,memory.total', '--format=csv,noheader,nounits']
  const answer = await promisify(execFile)(program, question, { timeout: timeoutMs }).catch(() => null)
  const gpu = visibleGpus(rowsOf(answer?.stdout ?? ''), environment['CUDA_VISIBLE_DEVICES'])[deviceId]
  const [used = NaN, total = NaN] = (gpu?.cells ?? []).map(Number)
  return total > 0 && used >= 0 ? { usedBytes: used * mebibyte, totalBytes: total * mebibyte } : null
}
